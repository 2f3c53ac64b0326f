// What all charts share. Each kind is a function of its data, a width, and what all charts of the kind have in common,
// which gives an element, or nothing.
"use strict";

const kinds = {};
const BLUE = "#4c78a8";
const RED = "#d9402b";

/// Height of a row: its name, and below that what is drawn.
const ROW = 40;
const NAME = 18;

/// From a horizontal axis to its label, below those of its values.
const LABEL = 36;

function plot(width, options) {
    const style = { background: "transparent", color: "inherit", fontSize: "12px", maxWidth: "100%" };
    return Plot.plot({ width, style, ...options });
}

/// Names of rows on lines of their own, above what is drawn: so they overlap nothing, however long they are.
function rowNames(names, width) {
    return Plot.text(names, {
        y: name => name, text: name => name, frameAnchor: "left", textAnchor: "start", dy: (NAME - ROW) / 2,
        lineWidth: width / 12, textOverflow: "ellipsis", fill: "currentColor", stroke: "var(--ground)", strokeWidth: 4,
    });
}

/// A row for each name.
function rows(names, width, options) {
    return plot(width, {
        marginLeft: 14, marginRight: 20, marginTop: 4, marginBottom: 46, height: 50 + ROW * names.length,
        ...options,
        y: { type: "band", domain: names, axis: null, padding: 0 },
        marks: [rowNames(names, width - 34), ...options.marks],
    });
}

/// Numbers as tables have them: three digits at least.
function digits(value) {
    const shown = Math.abs(value) < 100 ? Number(value.toPrecision(3)) : Math.round(value);
    return shown.toLocaleString("en-US", { maximumSignificantDigits: 12, useGrouping: Math.abs(value) >= 1e4 });
}

/// Sizes by their powers of 1024.
function size(value) {
    for (const [unit, of] of [["G", 2 ** 30], ["M", 2 ** 20], ["k", 2 ** 10]]) {
        if (value >= of && value % of === 0) return `${value / of}${unit}`;
    }
    return digits(value);
}

/// Those of these values that have room for a label of so many pixels beside each other.
function ticks(values, width, room) {
    const all = [...new Set(values)].sort(d3.ascending);
    const step = Math.ceil(all.length / Math.max(2, Math.floor(width / room)));
    return all.filter((_, at) => at % step === 0);
}

/// Round values for a logarithmic axis on which there is room for so many labels.
function powers(values, room) {
    const all = d3.scaleLog().domain(d3.extent(values)).nice().ticks();
    const round = steps => all.filter(value => steps.includes(Number(value.toExponential(6).split("e")[0])));
    const fitting = [[1, 2, 5], [1, 3], [1]].map(round).find(some => some.length > 1 && some.length <= room);
    return fitting ?? ticks(round([1]), room, 1);
}

/// A horizontal axis with a label at each of these values, also where it is logarithmic.
function labelled(values, label, text) {
    return Plot.axisX(values, { text, label: `${label} →`, labelAnchor: "right", labelOffset: LABEL });
}

/// Whether values lie so far apart that equal factors, not equal steps, have to be equally far apart.
function isWide(values, factor) {
    return d3.min(values) > 0 && d3.max(values) > factor * d3.min(values);
}

function drawAll() {
    const { all, shared } = JSON.parse(document.getElementById("charts").textContent);
    for (const place of document.querySelectorAll("[data-chart]")) {
        const { kind, data } = all[place.dataset.chart];
        const width = Math.max(280, Math.min(960, place.clientWidth));
        const drawn = kinds[kind](data, width, shared[kind]);
        if (drawn) place.append(drawn);
        else place.remove();
    }
}
