// The live page of `rackmem top --web`: asks for the latest measurement, shows its numbers, and draws the last ones.
"use strict";

const interval = 1000 * Number(document.querySelector("main").dataset.interval);
const said = document.getElementById("said");
const place = document.getElementById("charts");

/// Measurements that charts show, at most: five minutes at one a second.
const KEPT = 300;
/// Nodes that charts show one by one; of more they show the sum.
const MOST_LINES = 12;
const kept = [];
let sentence = "";

function scaled(number, base, units) {
    let at = 0;
    while (number >= base && at < units.length - 1) {
        number /= base;
        at += 1;
    }
    return `${Number(number.toPrecision(3))}${units[at]}`;
}
const count = number => scaled(number, 1000, ["", " k", " M", " G", " T"]);
const bytes = number => scaled(number, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);

/// A cell; a number has its exact value as its title.
function cell(value, format) {
    const element = document.createElement("td");
    if (value === undefined || value === null) return element;
    element.textContent = format ? format(value) : value;
    if (format) element.title = value;
    return element;
}

function fill(id, head, rows) {
    const row = cells => {
        const element = document.createElement("tr");
        element.append(...cells);
        return element;
    };
    const heads = head.map(text => {
        const element = document.createElement("th");
        element.textContent = text;
        return element;
    });
    document.getElementById(id).replaceChildren(row(heads), ...rows.map(row));
}

function sum(list, name) {
    return list.reduce((total, one) => total + one[name], 0);
}

function nodeRows(node) {
    if (!node.answers) return [[cell(node.nid), cell("does not answer")]];
    const inFlight = `${sum(node.qps, "outstanding")}/${sum(node.qps, "entries")}`;
    const all = [
        cell(node.nid), cell(null), cell(`all ${node.qps.length}`), cell(null), cell(null),
        cell(node.ops_per_second, count), cell(node.bytes_per_second, bytes), cell(node.errors, count),
        cell(inFlight), cell(node.served_packets_per_second, count),
    ];
    const each = node.qps.map(qp => [
        cell(null), cell(qp.pid), cell(qp.qp), cell(qp.ctx_id), cell(qp.progress),
        cell(qp.ops_per_second, count), cell(qp.bytes_per_second, bytes), cell(qp.errors, count),
        cell(`${qp.outstanding}/${qp.entries}`), cell(null),
    ]);
    return [all, ...each];
}

const NODE_HEAD = ["node", "process", "qp", "ctx", "progress", "ops/s", "bytes/s", "errors", "in flight", "served/s"];
const LENDER_HEAD = ["lender", "lends", "leased", "free", "leases", "state"];

function showTables(data) {
    fill("nodes", NODE_HEAD, data.nodes.flatMap(nodeRows));
    const lenders = data.lenders ?? [];
    document.getElementById("lent").hidden = lenders.length === 0;
    fill("lenders", LENDER_HEAD, lenders.map(lender => [
        cell(lender.name), cell(lender.size_bytes, bytes), cell(lender.leased_bytes, bytes),
        cell(lender.free_bytes, bytes), cell(lender.leases, count), cell(lender.is_leaving ? "leaves" : "lends"),
    ]));
    const nodes = `${data.nodes.length} node${data.nodes.length === 1 ? "" : "s"}`;
    const [ops, rate] = [sum(data.nodes, "ops_per_second"), sum(data.nodes, "bytes_per_second")];
    sentence = `${nodes}, ${count(ops)} operations/s, ${bytes(rate)}/s, over ${data.seconds.toFixed(1)} s`;
    said.dataset.measured = data.unix_seconds;
}

/// A line for each node, or their sum, over time.
function chart(title, name, format) {
    const perNode = kept[0].nodes.length <= MOST_LINES;
    const points = kept.flatMap(data => {
        const time = new Date(1000 * data.unix_seconds);
        if (!perNode) return [{ time, node: "all", value: sum(data.nodes, name) }];
        return data.nodes.map(node => ({ time, node: `node ${node.nid}`, value: node[name] }));
    });
    return Plot.plot({
        title,
        width: Math.max(260, Math.min(300, place.clientWidth)),
        height: 180,
        marginLeft: 60,
        style: { background: "transparent", color: "inherit", fontSize: "11px", maxWidth: "100%" },
        x: { type: "time", label: null, ticks: 4 },
        y: { label: null, ticks: 4, tickFormat: format, grid: true, domain: [0, Math.max(1, d3.max(points, one => one.value))] },
        color: { legend: perNode && kept[0].nodes.length > 1 },
        marks: [
            Plot.ruleY([0]),
            Plot.lineY(points, { x: "time", y: "value", stroke: "node", tip: true }),
            Plot.dot(kept.length === 1 ? points : [], { x: "time", y: "value", stroke: "node", r: 2 }),
        ],
    });
}

function showCharts() {
    place.replaceChildren(
        chart("Operations/s", "ops_per_second", count),
        chart("Payload, bytes/s", "bytes_per_second", bytes),
        chart("Served packets/s", "served_packets_per_second", count),
        chart("Failed operations", "errors", count),
    );
}

function show(data) {
    const last = kept.at(-1);
    if (last && last.unix_seconds === data.unix_seconds) return;
    kept.push(data);
    if (kept.length > KEPT) kept.shift();
    showTables(data);
    showCharts();
}

async function follow() {
    try {
        const response = await fetch("data.json");
        const data = await response.json();
        if (data) {
            show(data);
            const age = Date.now() / 1000 - data.unix_seconds;
            const isOld = age > 3 * (interval / 1000 + data.seconds);
            said.textContent = sentence + (isOld ? `; measured ${Math.round(age)} s ago: a daemon does not answer` : "");
        }
    } catch {
        said.textContent = "rackmem top has ended: these are its last numbers";
    }
    setTimeout(follow, Math.max(100, interval / 2));
}

follow();
