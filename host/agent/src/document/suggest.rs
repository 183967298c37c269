//! What an unknown name was probably meant to be.

/// The candidate that a mistyped word most likely stands for: the same but for case, a quarter of it or less away, or else one that it is
/// short for.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let candidates: Vec<(String, &str)> = candidates.into_iter().map(|candidate| (candidate.to_lowercase(), candidate)).collect();
    let distances = candidates.iter().map(|(lower, candidate)| (strsim::damerau_levenshtein(&word, lower), *candidate));
    let (distance, best) = distances.min_by_key(|(distance, _)| *distance)?;
    if distance <= word.chars().count().div_ceil(4).min(3) {
        return Some(best);
    }
    let short_for = candidates.iter().find(|(lower, _)| word.len() >= 4 && lower.starts_with(&word));
    short_for.map(|(_, candidate)| *candidate)
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
            ("readiness", Some("readinessProbe")),
            ("frobnicate", None),
            ("x", None),
        ] {
            assert_eq!(closest(word, known), meant, "{word}");
        }
        assert_eq!(did_you_mean("nmae", known), "did you mean \"name\"?");
        assert_eq!(did_you_mean("frobnicate", known), "");
    }
}
