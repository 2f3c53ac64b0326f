//! Random numbers that are the same in every run.

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A register full of bits that are worth trying.
    pub fn integer(&mut self) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            u64::MAX,
            i64::MIN as u64,
            i64::MAX as u64,
            i32::MIN as u64,
            i32::MAX as u64,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
        ];
        match self.below(4) {
            0 => self.pick(&EDGES),
            1 => self.next() as i32 as u64,
            2 => self.next() >> self.below(64),
            _ => self.next(),
        }
    }

    /// A binary64, often a special one or one near a special one.
    pub fn double(&mut self) -> u64 {
        self.float(52, 11)
    }

    /// A binary32, NaN-boxed except now and then.
    pub fn single(&mut self) -> u64 {
        let bits = self.float(23, 8);
        match self.below(16) {
            0 => bits | self.next() << 32,
            _ => bits | 0xffff_ffff_0000_0000,
        }
    }

    fn float(&mut self, fraction_bits: u32, exponent_bits: u32) -> u64 {
        let top = (1 << exponent_bits) - 1;
        let bias = top / 2;
        let mask = (1 << fraction_bits) - 1;
        let exponent = match self.below(8) {
            0 => 0,
            1 => top,
            2 => 1 + self.below(3),
            3 => top - 1 - self.below(3),
            4 => bias / 2 + self.below(4),
            5 => bias + bias / 2 + self.below(4),
            _ => bias - 4 + self.below(70),
        };
        let fraction = match self.below(6) {
            0 => 0,
            1 => mask,
            2 => 1 << self.below(u64::from(fraction_bits)),
            3 => mask << self.below(u64::from(fraction_bits)) & mask,
            _ => self.next() & mask,
        };
        self.below(2) << (fraction_bits + exponent_bits) | exponent << fraction_bits | fraction
    }
}
