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

/// A panel is at least so wide, or the chart is wider than its place, and scrolls.
const PANEL = 64;

/// A quantity of runs over the settings in which they differ, on a scale of its own. Runs that failed are crosses.
kinds.sweep = ({ values }, width, { axes, runs }) => {
    const [x, fx, colour, fy] = axes;
    const isNumber = axis => axis.values.every(value => typeof value === "number");
    const shown = value => typeof value === "number" ? size(value) : value;
    const place = (run, at) => axes[at]?.values[run.at[at]];
    const all = runs.map((run, at) => ({
        ...run, value: values[at], x: place(run, 0), fx: place(run, 1), colour: place(run, 2), fy: place(run, 3),
    }));
    const points = all.filter(run => run.value !== null);
    const failed = all.filter(run => run.error !== null);
    const side = fy ? 30 + Math.min(110, 7 * d3.max(fy.values, value => String(shown(value)).length)) : 24;
    const panels = fx ? fx.values.length : 1;
    const whole = Math.max(width, 56 + side + PANEL * panels);
    const panel = (whole - 56 - side) / panels;
    // Names are all there, and slanted where they have no room beside each other.
    const long = isNumber(x) ? 0 : 6 * d3.max(x.values, value => String(value).length);
    const slant = long > panel / x.values.length ? Math.min(90, long * 0.6) : 0;
    const bottom = 46 + slant;
    const scale = isNumber(x) ? { type: isWide(x.values, 7) ? "log" : "linear" } : { type: "point", domain: x.values };
    const channels = { x: "x", ...(fx && { fx: "fx" }), ...(fy && { fy: "fy" }) };
    const { stroke, legend } = colours(colour, isNumber, shown);
    const said = point => `${point.label}\n${digits(point.value)}`;
    const labels = slant > 0 || !isNumber(x) ? x.values : ticks(x.values, panel, 44);
    const drawn = plot(whole, {
        height: (fy ? 70 + 130 * fy.values.length : 260) + slant, marginLeft: 56, marginRight: side,
        marginTop: fx ? 40 : 12, marginBottom: bottom,
        x: { ...scale, inset: 8 },
        ...(fx && { fx: { domain: fx.values } }),
        ...(fy && { fy: { domain: fy.values, label: `↓ ${fy.key}`, tickFormat: shown } }),
        y: { label: null, zero: true, grid: true, nice: true, ticks: fy ? 3 : 5, tickFormat: digits },
        ...legend,
        marks: [
            fx && Plot.axisFx({
                label: `${fx.key} →`, tickFormat: shown, lineWidth: panel / 12, textOverflow: "ellipsis",
            }),
            Plot.axisX(labels, {
                text: shown, label: `${x.key} →`, labelAnchor: "right", labelOffset: LABEL + slant,
                ...(slant > 0 && { tickRotate: -35, textAnchor: "end" }),
            }),
            // Between names there is nothing.
            isNumber(x) ? Plot.line(means(points), { ...channels, y: "value", z: "line", stroke }) : null,
            Plot.dot(points, {
                ...channels, y: "value", stroke, fill: stroke, r: points.length > 200 ? 2.5 : 4, title: said, tip: true,
                ariaLabel: point => `${point.label}: ${point.value}`,
            }),
            Plot.dot(failed, {
                ...channels, y: () => 0, symbol: "times", stroke: RED, strokeWidth: 2, r: 4, tip: true,
                title: run => `${run.label}\nfailed: ${run.error}`, ariaLabel: run => `${run.label}: failed`,
            }),
            Plot.ruleY([0]),
        ],
    });
    if (whole === width) return drawn;
    const box = document.createElement("div");
    box.className = "wide";
    box.append(drawn);
    box.querySelectorAll("svg").forEach(svg => { svg.style.maxWidth = "none"; });
    return box;
};

/// Colours of a setting: of many numbers a scale, else one for each value.
function colours(axis, isNumber, shown) {
    if (!axis) return { stroke: BLUE, legend: {} };
    const name = axis.key.split(".").pop();
    // Neither end of a scheme is seen on every ground.
    const inner = count => d3.quantize(at => d3.interpolateTurbo(0.08 + 0.84 * at), count);
    if (isNumber(axis) && axis.values.length > 8) {
        const type = isWide(axis.values, 7) ? "log" : "linear";
        const color = { type, range: inner(9), interpolate: "rgb", legend: true, label: name };
        return { stroke: "colour", legend: { color } };
    }
    const named = value => `${name} ${shown(value)}`;
    const range = isNumber(axis) || axis.values.length > 10
        ? inner(Math.max(2, axis.values.length)) : d3.schemeTableau10.slice(0, axis.values.length);
    const domain = axis.values.map(named);
    return { stroke: run => named(run.colour), legend: { color: { type: "ordinal", domain, range, legend: true } } };
}

/// Points of lines in order: runs that differ in their seed alone are one point, their mean.
function means(points) {
    const groups = d3.flatGroup(points, point => point.line, point => point.x);
    const means = groups.map(([, , same]) => ({ ...same[0], value: d3.mean(same, point => point.value) }));
    return d3.sort(means, point => point.line, point => point.x);
}

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
