CREATE TABLE racks(id INTEGER PRIMARY KEY, name TEXT, latency REAL);
INSERT INTO racks(name, latency) VALUES('a', 0.3), ('b', 1.5), (NULL, 2.25);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO racks(name, latency) SELECT printf('node %03d', i), i / 7.0 FROM n;
CREATE INDEX by_name ON racks(name);
SELECT count(*), sum(latency), max(name), avg(length(name)) FROM racks;
SELECT * FROM racks WHERE name LIKE 'node 04%' ORDER BY latency DESC;
BEGIN; DELETE FROM racks WHERE id % 2; ROLLBACK; UPDATE racks SET latency = round(sqrt(latency), 6) WHERE id < 9;
SELECT group_concat(latency, ' ') FROM racks WHERE id < 12;
SELECT upper(hex(name)), random() IS NOT NULL, date(0, 'unixepoch') FROM racks LIMIT 3;
PRAGMA integrity_check;
