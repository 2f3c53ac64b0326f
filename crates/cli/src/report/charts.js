// Charts of a report, by Observable Plot. The page has the runs as JSON; tables are there without scripts.
"use strict";

const { runs, stages } = JSON.parse(document.getElementById("runs").textContent);
const place = document.getElementById("charts");
const width = Math.max(280, Math.min(960, place.clientWidth));
const margin = Math.round(Math.min(220, width * 0.3));
const labels = runs.map(run => run.label);
const name = { lineWidth: margin / 11, textOverflow: "ellipsis" };

function add(title, said, chart) {
    const heading = document.createElement("h2");
    heading.textContent = title;
    const text = document.createElement("p");
    text.textContent = said;
    place.append(heading, text, chart);
}

function plot(options) {
    const style = { background: "transparent", color: "inherit", fontSize: "12px", maxWidth: "100%" };
    return Plot.plot({ width, style, ...options });
}

// Mean time of a read in each stage.
function breakdown() {
    const parts = runs.flatMap(run => run.breakdown.map(stage => ({ ...stage, run: run.label })));
    if (parts.length === 0) return;
    const chart = plot({
        marginLeft: margin,
        height: 60 + 34 * labels.length,
        x: { label: "cycles" },
        y: { domain: labels, label: null },
        // More stages than any scheme of categories has colours.
        color: { domain: stages, range: stages.map((_, at) => d3.interpolateRainbow(at / stages.length)), legend: true },
        marks: [
            Plot.axisY(name),
            Plot.barX(parts, { x: "mean_cycles", y: "run", fill: "name", order: stages, tip: true }),
            Plot.ruleX([0]),
        ],
    });
    add("Latency by stage", "Mean time of a read in each stage, in the order of events.", chart);
}

// Reads by latency, run below run.
function histograms() {
    const bins = runs.flatMap(run => run.latencies.map((bin, at) => {
        const before = run.latencies[at - 1], after = run.latencies[at + 1];
        const wide = after ? after.from_cycles - bin.from_cycles : before ? bin.from_cycles - before.from_cycles : 1;
        return { run: run.label, from: bin.from_cycles, to: bin.from_cycles + wide, count: bin.count };
    }));
    if (bins.length === 0) return;
    const chart = plot({
        marginLeft: 60,
        marginRight: margin,
        height: 60 + 110 * labels.length,
        x: { label: "cycles" },
        y: { label: "reads", ticks: 3, grid: true },
        fy: { domain: labels, label: null },
        marks: [
            Plot.axisFy(name),
            Plot.rectY(bins, { x1: "from", x2: "to", y: "count", fy: "run", fill: "#4c78a8", tip: true }),
            Plot.ruleY([0]),
        ],
    });
    add("Latencies", "Reads by their latency.", chart);
}

// Load of each direction of each link; the two of a pair lie beside each other.
function links(run) {
    if (run.links.length === 0) return;
    const shifted = run.links.map(({ from, to, utilisation }) => {
        const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        const length = Math.hypot(dx, dy) || 1;
        const [x, y] = [-dy / length * 0.1, dx / length * 0.1];
        return { x1: from[0] + x, y1: from[1] + y, x2: to[0] + x, y2: to[1] + y, utilisation };
    });
    const [columns, rows] = [0, 1].map(at => 1 + Math.max(...run.links.flatMap(link => [link.from[at], link.to[at]])));
    const size = Math.min(width, 560);
    const chart = Plot.plot({
        width: size,
        height: size * Math.min(1.5, rows / columns) + 40,
        style: { background: "transparent", color: "inherit", maxWidth: "100%" },
        x: { domain: [-0.5, columns - 0.5], axis: null },
        y: { domain: [rows - 0.5, -0.5], axis: null },
        color: { domain: [0, 1], scheme: "ylorrd", legend: true, label: "share of the time in which a link is busy" },
        marks: [
            Plot.arrow(shifted, {
                x1: "x1", y1: "y1", x2: "x2", y2: "y2", stroke: "utilisation",
                strokeWidth: Math.min(4, size / 120), inset: size / 160, headLength: 5, tip: true,
            }),
        ],
    });
    add(`Links on chip: ${run.label}`, "Each direction of each link of the network, from where to where it leads.", chart);
}

// Counters of parts that every tile has, over the mesh; and of other parts, by number.
function parts(run) {
    const found = new Map();
    for (const [path, value] of Object.entries(run.stats)) {
        const match = /^(\w+)\[(\d+)\]\.(.+)$/.exec(path);
        if (!match) continue;
        const title = `${match[1]}[].${match[3]}`;
        if (!found.has(title)) found.set(title, []);
        const at = Number(match[2]);
        found.get(title).push({ at, value, x: at % run.columns, y: Math.floor(at / run.columns) });
    }
    const box = document.createElement("div");
    box.className = "small";
    for (const [title, values] of found) {
        if (values.length < 2 || values.every(one => one.value === 0)) continue;
        const options = { width: 230, style: { background: "transparent", color: "inherit" }, title, marginLeft: 45 };
        const isMesh = values.length === run.columns * run.rows;
        box.append(isMesh
            ? Plot.plot({
                ...options, height: 200, marginLeft: 10, x: { axis: null }, y: { axis: null },
                color: { scheme: "viridis", legend: true, tickFormat: "~s" },
                marks: [Plot.cell(values, { x: "x", y: "y", fill: "value", tip: true })],
            })
            : Plot.plot({
                ...options, height: 140, x: { label: null, ticks: [] }, y: { label: null, tickFormat: "~s", ticks: 3 },
                marks: [Plot.barY(values, { x: "at", y: "value", fill: "#4c78a8", tip: true }), Plot.ruleY([0])],
            }));
    }
    if (box.children.length === 0) return;
    add(`Parts: ${run.label}`, "Counters of parts that there are several of: where every tile has one, as on the chip.", box);
}

breakdown();
histograms();
for (const run of runs) {
    links(run);
    parts(run);
}
