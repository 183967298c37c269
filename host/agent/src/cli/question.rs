//! `polylet policy ask`: one question, from a file or out of a decision record.

use std::path::Path;

use anyhow::{Context, bail};
use polylet_core::question::{Hook, Question};
use serde_json::Value;

/// The question of a file, `-` being standard input.
///
/// # Errors
/// What keeps it from being a question to this hook; the file is named.
pub(super) fn read(input: &Path, hook: Hook) -> anyhow::Result<Question> {
    let named = || input.display().to_string();
    let text = match input.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("read standard input")?,
        _ => std::fs::read_to_string(input).with_context(|| format!("read {}", input.display()))?,
    };
    let (question, withheld) = parse(&text).with_context(named)?;
    if !withheld.is_empty() {
        eprintln!("note: the record withholds what the policy could see: {}", withheld.join(", "));
    }
    if question.body.hook() != hook {
        bail!("{}: a question to {}, not to {}", input.display(), question.body.hook().as_str(), hook.as_str());
    }
    Ok(question)
}

/// A question, or a decision record as `polylet policy log -o json` prints it, whose question is taken; and what that withholds.
fn parse(text: &str) -> anyhow::Result<(Question, Vec<String>)> {
    const FORM: &str = "neither a question nor a decision record; see `polylet policy log -o json` for both";
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut document = match documents.next() {
        Some(document) => document.context("is not JSON")?,
        None => bail!("is empty: it must hold a question or a decision record"),
    };
    if documents.next().is_some() {
        bail!("holds more than one document; give one record, such as one line of the log");
    }
    let withheld = document["withheld"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let (tree, place) = match document.get_mut("question") {
        Some(question) => (question.take(), "question."),
        None => (document, ""),
    };
    // The path leaves out which variant an object is, and shows where a value may be missing.
    let function =
        tree["body"].as_object().and_then(|body| body.keys().next()).map(|key| format!("body.{key}")).unwrap_or_default();
    let written = |path: &serde_ignored::Path<'_>| path.to_string().replacen("body.?", &function, 1).replace(".?", "");
    let mut unknown = Vec::new();
    let mut note = |path: serde_ignored::Path<'_>| unknown.push(format!("{place}{}: Unknown field", written(&path)));
    let question: Question = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(tree, &mut note))
        .map_err(|error| anyhow::anyhow!("{place}{}: {}", error.path(), error.inner()))
        .context(FORM)?;
    if unknown.is_empty() { Ok((question, withheld)) } else { bail!("{}", unknown.join("; ")) }
}

#[cfg(test)]
mod tests {
    use polylet_core::question::Body;
    use serde_json::json;

    use super::*;

    fn asked() -> Value {
        json!({
            "body": {"assess": {"node": {}, "signals": []}},
            "facts": {"numbers": {"a": 1}, "tables": {"t": {"c": [null, 1, i64::MIN]}}},
        })
    }

    #[test]
    fn a_question_is_read_bare_and_out_of_a_record() {
        let record =
            json!({"seq": 7, "hook": "eviction", "question": asked(), "answer": {"assess": []}, "withheld": ["probe.output"]});
        for document in [asked(), record] {
            // As jq writes the number that stands for what is not known, too.
            for text in [document.to_string(), document.to_string().replace(&i64::MIN.to_string(), "-9223372036854775808.0")] {
                let (question, withheld) = parse(&text).unwrap();
                assert_eq!(withheld.len(), usize::from(text.contains("withheld")));
                assert!(matches!(question.body, Body::Assess(_)));
                assert_eq!(question.facts.tables["t"]["c"], [i64::MIN, 1, i64::MIN]);
                assert_eq!(serde_json::to_value(&question).unwrap()["facts"]["tables"]["t"]["c"], json!([null, 1, null]));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, expected: &str| {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{error:?} does not contain {expected:?}");
        };
        check("", "is empty: ");
        check("{", "is not JSON: ");
        check("{} {}", "more than one document");
        check("{}", "missing field `body`");
        let mut odd = asked();
        odd["fact"] = json!({});
        odd["body"]["assess"]["extra"] = json!(1);
        check(&odd.to_string(), "body.assess.extra: Unknown field");
        check(&odd.to_string(), "fact: Unknown field");
        check(&json!({"question": odd}).to_string(), "question.fact: Unknown field");
        let mut wrong = asked();
        wrong["facts"]["tables"]["t"]["c"] = json!([1.5]);
        check(&wrong.to_string(), "facts.tables.t.c[0]: ");
    }
}
