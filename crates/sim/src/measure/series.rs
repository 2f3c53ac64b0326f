//! Observations of equal length, and what else was counted in the meantime.

/// Observations that a series holds at most.
pub const OBSERVATIONS: usize = 1024;

/// Observations for which a segment stands.
pub const PER_SEGMENT: usize = 32;

/// What is counted beside the observations, over a stretch of time. Only stretches are kept, not every
/// observation's counts.
pub trait Segment {
    /// Continues with the stretch that follows.
    fn append(&mut self, next: Self);
}

/// What was seen in an observation.
pub trait Observation: Copy {
    /// The same of an observation and the one that follows, together.
    fn join(self, next: Self) -> Self;
}

/// A mean over the observation.
impl Observation for f64 {
    fn join(self, next: f64) -> f64 {
        (self + next) / 2.0
    }
}

/// Observations of equal length from cycle 0 on. When there are as many as it holds, neighbours are joined and
/// each stands for twice the time, so that a run of any length takes as much memory and is as easily looked at.
#[derive(Clone, Debug)]
pub struct Series<S, O = f64> {
    cycles: u64,
    observations: Vec<O>,
    segments: Vec<S>,
}

impl<S: Segment, O: Observation> Series<S, O> {
    /// A series whose observations stand for so many cycles each, to begin with.
    pub fn new(cycles: u64) -> Series<S, O> {
        Series { cycles, observations: Vec::with_capacity(OBSERVATIONS), segments: Vec::new() }
    }

    /// Cycles of an observation, at this time.
    pub fn observation_cycles(&self) -> u64 {
        self.cycles
    }

    /// The observations, oldest first.
    pub fn observations(&self) -> &[O] {
        &self.observations
    }

    pub fn end_cycle(&self) -> u64 {
        self.observations.len() as u64 * self.cycles
    }

    /// Adds an observation of [`observation_cycles`](Series::observation_cycles); whether it ends a segment,
    /// which is to be added next.
    pub fn observe(&mut self, value: O) -> bool {
        self.observations.push(value);
        self.observations.len().is_multiple_of(PER_SEGMENT)
    }

    /// Adds what was counted since the last segment.
    pub fn add_segment(&mut self, segment: S) {
        self.segments.push(segment);
        if self.observations.len() == OBSERVATIONS {
            self.join();
        }
    }

    /// What was counted in each stretch of time, oldest first.
    pub fn segments(&self) -> &[S] {
        &self.segments
    }

    pub fn into_segments(self) -> Vec<S> {
        self.segments
    }

    fn join(&mut self) {
        self.cycles *= 2;
        let pairs = self.observations.chunks_exact(2);
        self.observations = pairs.map(|pair| pair[0].join(pair[1])).collect();
        let mut joined: Vec<S> = Vec::with_capacity(self.segments.len());
        for (index, segment) in std::mem::take(&mut self.segments).into_iter().enumerate() {
            match joined.last_mut() {
                Some(last) if index % 2 == 1 => last.append(segment),
                _ => joined.push(segment),
            }
        }
        self.segments = joined;
    }
}
