//! `$(NAME)` in commands, arguments and values of variables.

use k8s_openapi::api::core::v1;

/// Upstream's syntax: `$(NAME)` stands for the variable's value, and for itself where there is no such variable; `$$` is one `$`;
/// a `$` before anything else, and a `$(` that is not closed, stand for themselves. Values are not looked into again.
pub(super) fn expand(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|reference| reference.split_once(')')) {
            out.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

/// The command of an exec probe: expanded with the values that stand in the container's `env` as they are written, and with
/// nothing else. A variable from elsewhere is empty here.
pub fn exec_probe_command(container: &v1::Container, command: &[String]) -> Vec<String> {
    let value = |name: &str| {
        let variable = container.env.iter().flatten().rfind(|variable| variable.name == name);
        variable.map(|variable| variable.value.clone().unwrap_or_default())
    };
    command.iter().map(|word| expand(word, value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references() {
        let value = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "REF" => Some("$(A)".to_owned()),
            "EMPTY" | "" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "a"),
            ("x$(A)y$(A)", "xaya"),
            ("$(EMPTY)|$()", "|"),
            ("$(REF)", "$(A)"),
            ("$(NONE)", "$(NONE)"),
            ("$$", "$"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$A ${A}", "$A ${A}"),
            ("$(A", "$(A"),
            ("$(NO$(A)", "$(NO$(A)"),
            ("$(A$(A)", "$(A$(A)"),
            ("end$", "end$"),
            ("$é$(A)", "$éa"),
            ("$(A)(B)", "a(B)"),
        ] {
            assert_eq!(expand(text, value), expected, "{text}");
        }
    }

    #[test]
    fn commands_of_probes() {
        let container: v1::Container = serde_json::from_value(json!({
            "name": "app",
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "env": [
                {"name": "A", "value": "old"},
                {"name": "A", "value": "$(B)"},
                {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }))
        .unwrap();
        let command = ["$(A)", "<$(P)>", "$(KUBERNETES_SERVICE_HOST)", "$$(A)"].map(str::to_owned);
        let expected = ["$(B)", "<>", "$(KUBERNETES_SERVICE_HOST)", "$(A)"];
        assert_eq!(exec_probe_command(&container, &command), expected);
    }
}
