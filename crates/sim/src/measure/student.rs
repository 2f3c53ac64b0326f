//! Quantiles of Student's t distribution, for two-sided intervals of 95 %.

/// t(0.975) for 1 to 30 degrees of freedom.
const TABLE: [f64; 30] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
    2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
    2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
];

/// z(0.975) of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// The quantile with 2.5 % above it; infinite without a degree of freedom.
pub fn two_sided_95(degrees_of_freedom: usize) -> f64 {
    match degrees_of_freedom {
        0 => f64::INFINITY,
        few @ 1..=30 => TABLE[few - 1],
        // The first terms of the expansion around the normal distribution (Abramowitz and Stegun 26.7.5).
        many => {
            let (z, n) = (NORMAL, many as f64);
            let first = (z.powi(3) + z) / 4.0;
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            z + first / n + second / (n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::two_sided_95;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    #[test]
    fn quantiles_are_the_published_ones() {
        for (degrees, published) in [
            (1, 12.706),
            (2, 4.303),
            (5, 2.571),
            (9, 2.262),
            (15, 2.131),
            (19, 2.093),
            (30, 2.042),
            (31, 2.040),
            (40, 2.021),
            (60, 2.000),
            (100, 1.984),
            (1_000_000, 1.960),
        ] {
            let found = two_sided_95(degrees);
            assert!((found - published).abs() < 0.000_6, "{degrees}: {found}, not {published}");
        }
        assert!(two_sided_95(0).is_infinite());
    }
}
