PRAGMA journal_mode = wal;
CREATE TABLE leases (id INTEGER PRIMARY KEY, borrower TEXT, bytes INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
    INSERT INTO leases SELECT i, 'node' || (i % 4), i * 4096 FROM n;
PRAGMA wal_checkpoint(PASSIVE);
UPDATE leases SET bytes = bytes + 1 WHERE id % 3 = 0;
SELECT borrower, count(*), sum(bytes) FROM leases GROUP BY borrower ORDER BY borrower;
