//! A share of a study's runs.

use std::str::FromStr;

/// The K-th of N shares, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// The share of a task of a Slurm array, if this is one: `variable` gives variables of the environment.
    ///
    /// # Errors
    /// The variables contradict each other.
    pub fn of_slurm(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Shard>, String> {
        let number = |name: &str| {
            let value = variable(&format!("SLURM_ARRAY_TASK_{name}"));
            let parse = |text: String| {
                text.parse().map_err(|_| format!("SLURM_ARRAY_TASK_{name}={text} is no number"))
            };
            value.map(parse).transpose()
        };
        let (Some(id), Some(count)) = (number("ID")?, number("COUNT")?) else { return Ok(None) };
        let (least, step) = (number("MIN")?.unwrap_or(0), number("STEP")?.unwrap_or(1).max(1));
        let index = u64::checked_sub(id, least).map_or(0, |above| above / step + 1);
        Shard::new(index, count).map(Some).map_err(|why| {
            format!(
                "task {id} of a Slurm array of {count} tasks from {least} in steps of {step}: {why}"
            )
        })
    }

    fn new(index: u64, count: u64) -> Result<Shard, String> {
        match (1..=count).contains(&index) {
            true => Ok(Shard { index, count }),
            false => Err(format!(
                "there is no share {index} of {count}; say --shard K/N with K from 1 to N"
            )),
        }
    }

    /// Whether the point of this number, from 0, is in it.
    pub fn has(self, point: usize) -> bool {
        point as u64 % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').map(|(index, count)| (index.parse(), count.parse()));
        match numbers {
            Some((Ok(index), Ok(count))) => Shard::new(index, count),
            _ => Err(format!("'{text}': expected K/N, such as 1/4")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_in_one_share() {
        let shards: Vec<Shard> =
            ["1/3", "2/3", "3/3"].iter().map(|text| text.parse().unwrap()).collect();
        for point in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.has(point)).count(), 1);
        }
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "-1/2", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_slurm_array_gives_its_tasks_their_shares() {
        let slurm = |values: [(&str, &str); 4]| {
            Shard::of_slurm(move |name| {
                let short = name.strip_prefix("SLURM_ARRAY_TASK_")?;
                values
                    .iter()
                    .find(|(known, _)| *known == short)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        let of = |id| slurm([("ID", id), ("COUNT", "3"), ("MIN", "10"), ("STEP", "5")]);
        assert_eq!(of("10"), Ok(Some("1/3".parse().unwrap())));
        assert_eq!(of("20"), Ok(Some("3/3".parse().unwrap())));
        assert!(of("25").is_err() && of("5").is_err() && of("x").is_err());
        assert_eq!(Shard::of_slurm(|_| None), Ok(None));
    }
}
