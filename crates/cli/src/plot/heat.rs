//! The links of a network on chip, coloured by load.

use std::collections::BTreeMap;

use rackmem_sim::report::LinkLoad;

use super::Svg;
use super::svg::Anchor;

/// Distance of two routers.
const PITCH: f64 = 56.0;
/// Space around the drawing.
const MARGIN: f64 = 56.0;
/// Space for the title and below it.
const TITLE: f64 = 40.0;
/// Distance of the two directions of a link from its middle.
const LANE: f64 = 5.0;
/// Space for the scale at the right.
const SCALE: f64 = 90.0;

/// A map of all links: each direction is a line of its own, from white (idle) to dark red (busy in
/// every cycle). Links that do not join neighbours are drawn as arcs would be: beside the row.
pub fn links(title: &str, links: &[LinkLoad]) -> String {
    let corner = |of: fn(&LinkLoad) -> [u16; 2]| links.iter().flat_map(of).max().unwrap_or(0);
    let columns = corner(|link| [link.from.0, link.to.0]) + 1;
    let rows = corner(|link| [link.from.1, link.to.1]) + 1;
    let width = 2.0 * MARGIN + f64::from(columns - 1) * PITCH;
    let height = TITLE + 2.0 * MARGIN + f64::from(rows - 1) * PITCH;
    let mut svg = Svg::new(width + SCALE, height);
    svg.text((width / 2.0, 26.0), Anchor::Middle, 16, title);
    for link in links {
        draw(&mut svg, link);
    }
    for column in 0..columns {
        for row in 0..rows {
            svg.circle(place((column, row)), 4.0, "#404040");
        }
    }
    labels(&mut svg, columns, rows);
    scale(&mut svg, width);
    hottest(&mut svg, links, height);
    svg.render()
}

fn place((column, row): (u16, u16)) -> (f64, f64) {
    (MARGIN + f64::from(column) * PITCH, TITLE + MARGIN + f64::from(row) * PITCH)
}

fn draw(svg: &mut Svg, link: &LinkLoad) {
    let ((x1, y1), (x2, y2)) = (place(link.from), place(link.to));
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return;
    }
    // The two directions lie side by side; longer links further out, so that they are told apart.
    let lane = LANE * (length / PITCH);
    let (ox, oy) = (-dy / length * lane, dx / length * lane);
    let (ex, ey) = (dx / length * 6.0, dy / length * 6.0);
    let from = (x1 + ox + ex, y1 + oy + ey);
    let to = (x2 + ox - ex, y2 + oy - ey);
    svg.line(from, to, "#d8d8d8", 7.0);
    svg.line(from, to, &colour(link.utilisation), 6.0);
}

fn colour(load: f64) -> String {
    const STOPS: [(f64, [f64; 3]); 4] = [
        (0.0, [255.0, 255.0, 255.0]),
        (0.33, [254.0, 217.0, 118.0]),
        (0.66, [240.0, 59.0, 32.0]),
        (1.0, [103.0, 0.0, 31.0]),
    ];
    let load = load.clamp(0.0, 1.0);
    let upper = STOPS.iter().position(|&(at, _)| load <= at).unwrap_or(3).max(1);
    let ((low, from), (high, to)) = (STOPS[upper - 1], STOPS[upper]);
    let part = (load - low) / (high - low);
    let mix = |i: usize| (from[i] + (to[i] - from[i]) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

fn labels(svg: &mut Svg, columns: u16, rows: u16) {
    for column in 0..columns {
        let (x, y) = place((column, 0));
        svg.text((x, y - 22.0), Anchor::Middle, 11, &column.to_string());
    }
    for row in 0..rows {
        let (x, y) = place((0, row));
        svg.text((x - 24.0, y + 4.0), Anchor::End, 11, &row.to_string());
    }
}

fn scale(svg: &mut Svg, x: f64) {
    const STEPS: u32 = 20;
    for step in 0..=STEPS {
        let load = f64::from(step) / f64::from(STEPS);
        let y = TITLE + MARGIN + f64::from(STEPS - step) * 8.0;
        svg.rect((x, y), (16.0, 8.0), &colour(load));
        if step % 5 == 0 {
            svg.text((x + 22.0, y + 8.0), Anchor::Start, 11, &format!("{:.0} %", load * 100.0));
        }
    }
}

fn hottest(svg: &mut Svg, links: &[LinkLoad], height: f64) {
    let mut columns: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    let along = |link: &&LinkLoad| link.from.0 == link.to.0 && link.from.1 != link.to.1;
    for link in links.iter().filter(along) {
        columns.entry(link.from.0).or_default().push(link.utilisation);
    }
    let means: Vec<String> = columns
        .iter()
        .map(|(column, loads)| {
            let mean = loads.iter().sum::<f64>() / loads.len() as f64;
            format!("{column}: {:.0} %", 100.0 * mean)
        })
        .collect();
    let busiest = links.iter().map(|link| link.utilisation).fold(0.0, f64::max);
    let text = format!("busiest link {:.0} %; columns {}", 100.0 * busiest, means.join(", "));
    svg.text((MARGIN / 2.0, height - 12.0), Anchor::Start, 11, &text);
}

#[cfg(test)]
mod tests {
    use super::super::svg::assert_well_formed;
    use super::*;

    #[test]
    fn a_map_has_a_line_for_each_direction() {
        let link = |from, to, utilisation| LinkLoad { from, to, utilisation };
        let loads =
            [link((0, 0), (1, 0), 0.5), link((1, 0), (0, 0), 1.0), link((1, 0), (1, 1), 0.0)];
        let map = links("xy & more", &loads);
        assert_well_formed(&map);
        assert_eq!(map.matches("<line").count(), 6);
        assert!(map.contains("busiest link 100 %; columns 1: 0 %"));
        assert_well_formed(&links("empty", &[]));
    }

    #[test]
    fn colours_go_from_white_to_dark_red() {
        assert_eq!((colour(0.0).as_str(), colour(1.0).as_str()), ("#ffffff", "#67001f"));
        assert_eq!(colour(7.0), colour(1.0));
    }
}
