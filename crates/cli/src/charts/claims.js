// Charts that hold measured values against published ones, or against those of other simulators.
"use strict";

/// Verdicts, with a colour and a form each: neither alone says it.
const VERDICTS = { holds: ["#2a9d4e", "circle"], missed: ["#d9402b", "triangle"], fitted: ["#c98a00", "diamond"] };

function verdictScales(of) {
    const domain = Object.keys(VERDICTS).filter(verdict => of.some(row => row.verdict === verdict));
    return {
        color: { domain, range: domain.map(verdict => VERDICTS[verdict][0]) },
        symbol: { domain, range: domain.map(verdict => VERDICTS[verdict][1]), legend: true },
    };
}

function said({ name, published, measured, band, spread, verdict }) {
    const range = (title, values) => values ? `\n${title}: ${digits(values[0])} to ${digits(values[1])}` : "";
    const value = published === null ? "" : `\npublished: ${digits(published)}`;
    return `${name}${value}\nmeasured: ${digits(measured)}${range("band", band)}${range("spread", spread)}\n${verdict}`;
}

/// All values that a chart shows of a claim; of an ordering 1, too, where both sides are alike.
function valuesOf({ published, measured, band, spread }) {
    return [published ?? 1, measured, ...(band ?? []), ...(spread ?? [])];
}

/// Curves; rings are published values at their positions.
kinds.lines = ({ x, y, log_x, series }, width) => {
    const points = series.flatMap(({ name, dashed, points }) => points.map(([x, y]) => ({ name, dashed, x, y })));
    if (points.length === 0) return null;
    const claims = series.flatMap(({ name, claims }) => claims.map(claim => ({ ...claim, series: name })));
    const ranges = (kind, options) => Plot.ruleX(claims.filter(claim => claim[kind]), {
        x: "x", y1: claim => claim[kind][0], y2: claim => claim[kind][1], stroke: "series", ...options,
    });
    const xs = points.map(point => point.x);
    const isLog = log_x && d3.min(xs) > 0;
    const values = [...points.map(point => point.y), ...claims.flatMap(valuesOf)];
    const isWideY = isWide(values, 50);
    const [low, high] = [Math.min(0, d3.min(values)), Math.max(0, d3.max(values))];
    const ys = isWideY ? powers(values, 8) : d3.scaleLinear().domain([low, high]).nice(6).ticks(6);
    const axis = isLog
        ? labelled(ticks(xs, width - 80, 40), x, size)
        : Plot.axisX({
            tickFormat: digits, ticks: Math.round(width / 80),
            label: `${x} →`, labelAnchor: "right", labelOffset: LABEL,
        });
    const lines = [[false, "none"], [true, "5,4"]].map(([dashed, strokeDasharray]) => {
        const some = points.filter(point => point.dashed === dashed);
        return Plot.line(some, { x: "x", y: "y", z: "name", stroke: "name", strokeWidth: 2, strokeDasharray });
    });
    return plot(width, {
        height: Math.round(Math.min(400, Math.max(280, width * 0.6))),
        marginLeft: 60, marginRight: 24, marginTop: 26, marginBottom: 46,
        x: { type: isLog ? "log" : "linear" },
        y: { type: isWideY ? "log" : "linear", zero: !isWideY, nice: isWideY || 6 },
        color: { domain: series.map(one => one.name), scheme: "observable10", legend: true },
        marks: [
            axis,
            Plot.gridY(ys),
            Plot.axisY(ys, { text: digits, label: `↑ ${y}` }),
            ...lines,
            ranges("band", { strokeOpacity: 0.7 }),
            ranges("spread", { strokeWidth: 4, strokeOpacity: 0.5 }),
            Plot.dot(points, {
                x: "x", y: "y", fill: "name", r: 3, tip: true, ariaLabel: point => `measured ${point.y}`,
            }),
            Plot.dot(claims, {
                x: "x", y: "published", stroke: "series", strokeWidth: 1.5, r: 6, title: said, tip: true,
                ariaLabel: claim => `published ${claim.published}`,
            }),
        ],
    });
};

/// Claims of a unit: a ring for the published value, a filled mark for the measured one, in the verdict's colour.
kinds.claims = ({ unit, claims }, width) => {
    const isOrdering = claims.every(claim => claim.published === null);
    const values = claims.flatMap(valuesOf);
    const isLog = isWide(values, 20);
    const room = Math.round(width / 70);
    const at = isLog ? powers(values, room) : d3.scaleLinear().domain(d3.extent(values)).nice().ticks(room);
    const below = { y: "name", dy: NAME / 2 };
    const range = (kind, options) => Plot.ruleY(claims.filter(claim => claim[kind]), {
        ...below, x1: claim => claim[kind][0], x2: claim => claim[kind][1], stroke: "verdict", ...options,
    });
    return rows(claims.map(claim => claim.name), width, {
        ...verdictScales(claims),
        x: { type: isLog ? "log" : "linear", nice: true, inset: 8 },
        marks: [
            Plot.gridX(at),
            labelled(at, unit, digits),
            isOrdering ? Plot.ruleX([1], { strokeDasharray: "3,3" }) : null,
            range("band", { strokeWidth: 1.5 }),
            range("spread", { strokeWidth: 5, strokeOpacity: 0.5 }),
            Plot.dot(claims, {
                ...below, x: "measured", fill: "verdict", symbol: "verdict", r: 4.5, title: said, tip: true,
                ariaLabel: claim => `${claim.name}: measured ${claim.measured}`,
            }),
            Plot.dot(claims.filter(claim => claim.published !== null), {
                ...below, x: "published", stroke: "currentColor", strokeWidth: 1.5, r: 7,
                ariaLabel: claim => `${claim.name}: published ${claim.published}`,
            }),
        ],
    });
};
