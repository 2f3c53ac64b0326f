// Charts of runs.
"use strict";

/// Mean time of a read in each stage.
kinds.stages = ({ runs, stages }, width) => {
    const parts = runs.flatMap(run => run.breakdown.map(stage => ({ ...stage, run: run.label })));
    if (parts.length === 0) return null;
    // More stages than any scheme of categories has colours.
    const range = stages.map((_, at) => d3.interpolateRainbow(at / stages.length));
    return rows(runs.map(run => run.label), width, {
        x: { label: "cycles", labelOffset: LABEL },
        color: { domain: stages, range, legend: true },
        marks: [
            Plot.barX(parts, {
                x: "mean_cycles", y: "run", fill: "name", order: stages, insetTop: NAME, insetBottom: 4, tip: true,
            }),
            Plot.ruleX([0]),
        ],
    });
};

/// Reads by latency, run below run: cycles on one scale, and counts on one of their own.
kinds.histograms = ({ runs }, width) => {
    const counted = runs.filter(run => run.latencies.length > 0);
    if (counted.length === 0) return null;
    const bins = counted.map(({ latencies }) => latencies.map((bin, at) => {
        const before = latencies[at - 1], after = latencies[at + 1];
        const wide = after ? after.from_cycles - bin.from_cycles : before ? bin.from_cycles - before.from_cycles : 1;
        return { from: bin.from_cycles, to: bin.from_cycles + wide, count: bin.count };
    }));
    const domain = [d3.min(bins.flat(), bin => bin.from), d3.max(bins.flat(), bin => bin.to)];
    const box = document.createElement("div");
    counted.forEach((run, at) => {
        const name = document.createElement("div");
        name.className = "name";
        name.textContent = run.label;
        const isLast = at === counted.length - 1;
        box.append(name, plot(width, {
            height: isLast ? 126 : 100, marginLeft: 46, marginTop: 10, marginBottom: isLast ? 46 : 20,
            x: { label: isLast ? "cycles" : null, labelOffset: LABEL, domain, ticks: Math.round(width / 80) },
            y: { label: null, ticks: 3, grid: true },
            marks: [
                Plot.rectY(bins[at], { x1: "from", x2: "to", y: "count", fill: BLUE, tip: true }),
                Plot.ruleY([0]),
            ],
        }));
    });
    return box;
};

/// A quantity of runs over the settings in which they differ, on a scale of its own.
kinds.sweep = ({ axes, points }, width) => {
    const [x, ...others] = axes;
    const few = others.findIndex(axis => axis.values.length <= 4);
    const facet = few < 0 ? null : others[few];
    const colour = others.find(axis => axis !== facet);
    const isNumber = axis => axis.values.every(value => typeof value === "number");
    const label = axis => `${axis.key} →`;
    const shown = value => typeof value === "number" ? size(value) : value;
    const setting = axis => point => point.settings[axis.key];
    const isLog = isNumber(x) && isWide(x.values, 7);
    const scale = isNumber(x) ? { type: isLog ? "log" : "linear" } : { type: "point", domain: x.values };
    const panel = (width - 80) / (facet ? facet.values.length : 1);
    const named = value => `${colour.key.split(".").pop()} ${shown(value)}`;
    const name = colour && (point => named(setting(colour)(point)));
    const channels = {
        x: setting(x), y: "value", ...(facet && { fx: setting(facet) }), stroke: name ?? BLUE, z: name ?? null,
    };
    const said = point => `${point.label}\n${digits(point.value)}`;
    return plot(width, {
        height: 260, marginLeft: 56, marginRight: 24, marginTop: facet ? 40 : 12, marginBottom: 46,
        x: { ...scale, inset: 8 },
        ...(facet && { fx: { domain: facet.values, label: label(facet), tickFormat: shown } }),
        y: { label: null, zero: true, grid: true, nice: true, ticks: 5, tickFormat: digits },
        ...(colour && { color: { domain: colour.values.map(named), legend: true } }),
        marks: [
            labelled(ticks(x.values, panel, 44), x.key, shown),
            // Between names there is nothing.
            isNumber(x) ? Plot.line(points, channels) : null,
            Plot.dot(points, {
                ...channels, fill: channels.stroke, r: 4, title: said, tip: true,
                ariaLabel: point => `${point.label}: ${point.value}`,
            }),
            Plot.ruleY([0]),
        ],
    });
};

/// Load of each direction of each link; the two of a pair lie beside each other.
kinds.links = ({ links }, width) => {
    if (links.length === 0) return null;
    const shifted = links.map(({ from, to, utilisation }) => {
        const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        const length = Math.hypot(dx, dy) || 1;
        const [x, y] = [-dy / length * 0.1, dx / length * 0.1];
        return { x1: from[0] + x, y1: from[1] + y, x2: to[0] + x, y2: to[1] + y, utilisation };
    });
    const [columns, lines] = [0, 1].map(at => 1 + Math.max(...links.flatMap(link => [link.from[at], link.to[at]])));
    const side = Math.min(width, 560);
    return plot(side, {
        height: side * Math.min(1.5, lines / columns) + 40,
        x: { domain: [-0.5, columns - 0.5], axis: null },
        y: { domain: [lines - 0.5, -0.5], axis: null },
        color: {
            domain: [0, 1], scheme: "ylorrd", range: [0.2, 1],
            legend: true, label: "share of the time in which a link is busy",
        },
        marks: [
            Plot.arrow(shifted, {
                x1: "x1", y1: "y1", x2: "x2", y2: "y2", stroke: "utilisation",
                strokeWidth: Math.min(4, side / 120), inset: side / 160, headLength: 5, tip: true,
            }),
        ],
    });
};

/// Counters of parts that every tile has, over the mesh; and of other parts, by number.
kinds.parts = ({ stats, columns, rows }) => {
    const found = new Map();
    for (const [path, value] of Object.entries(stats)) {
        const match = /^(\w+)\[(\d+)\]\.(.+)$/.exec(path);
        if (!match) continue;
        const title = `${match[1]}[].${match[3]}`;
        if (!found.has(title)) found.set(title, []);
        const at = Number(match[2]);
        found.get(title).push({ at, value, x: at % columns, y: Math.floor(at / columns) });
    }
    const box = document.createElement("div");
    box.className = "small";
    for (const [title, values] of found) {
        if (values.length < 2 || values.every(one => one.value === 0)) continue;
        const isMesh = values.length === columns * rows;
        box.append(isMesh
            ? plot(230, {
                title, height: 200, marginLeft: 10, x: { axis: null }, y: { axis: null },
                color: { scheme: "viridis", legend: true, tickFormat: "~s" },
                marks: [Plot.cell(values, { x: "x", y: "y", fill: "value", tip: true })],
            })
            : plot(230, {
                title, height: 140, marginLeft: 45,
                x: { label: null, ticks: [] }, y: { label: null, tickFormat: "~s", ticks: 3 },
                marks: [Plot.barY(values, { x: "at", y: "value", fill: BLUE, tip: true }), Plot.ruleY([0])],
            }));
    }
    return box.children.length > 0 ? box : null;
};
