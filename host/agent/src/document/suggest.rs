//! What an unknown name was probably meant to be.

/// The candidate that a mistyped word most likely stands for: the same but for case, or at most a third of it away.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= word.chars().count().div_ceil(4).min(3)).then_some(best)
}

/// `did you mean "…"?`, or nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    // Words beyond this length are no slip of the finger, and comparing them costs time.
    if word.len() > 100 {
        return String::new();
    }
    closest(word, candidates).map(|best| format!("did you mean {best:?}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["livenessProbe", "readinessProbe", "image", "name", "env"];
        for (word, meant) in [
            ("livenessprobe", Some("livenessProbe")),
            ("livnessProbe", Some("livenessProbe")),
            ("imgae", Some("image")),
            ("envs", Some("env")),
            ("frobnicate", None),
            ("x", None),
        ] {
            assert_eq!(closest(word, known), meant, "{word}");
        }
        assert_eq!(did_you_mean("nmae", known), "did you mean \"name\"?");
        assert_eq!(did_you_mean("frobnicate", known), "");
    }
}
