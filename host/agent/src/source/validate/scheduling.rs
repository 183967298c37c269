//! What a scheduler would read, and the pod's place among others. This node is chosen already; what is wrong is told all the same.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{labels, names};
use crate::document::field::{At, Findings};

/// Checks all of the spec that is about where the pod runs.
pub(super) fn scheduling(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    labels(spec.node_selector.as_ref(), &at.child("nodeSelector"), findings);
    if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
        findings.forbidden(&at.child("schedulingGates"), "a pod with a node cannot be gated");
    }
    let name = spec.scheduler_name.as_deref().unwrap_or_default();
    findings.format(&at.child("schedulerName"), name, names::qualified_name(name));
    if let Some(class) = spec.priority_class_name.as_deref().filter(|class| !class.is_empty()) {
        findings.format(&at.child("priorityClassName"), class, names::dns_subdomain(class));
    }
    if let Some(class) = spec.runtime_class_name.as_deref().filter(|class| !class.is_empty()) {
        findings.format(&at.child("runtimeClassName"), class, names::dns_subdomain(class));
    }
    findings.one_of(&at.child("preemptionPolicy"), spec.preemption_policy.as_deref(), &["Never", "PreemptLowerPriority"]);
    if let Some(os) = &spec.os {
        findings.one_of(&at.child("os").child("name"), Some(&os.name), &["linux"]);
    }
    for (i, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let at = at.child("readinessGates").index(i).child("conditionType");
        findings.format(&at, &gate.condition_type, names::qualified_name(&gate.condition_type));
    }
    for (i, toleration) in spec.tolerations.iter().flatten().enumerate() {
        tolerates(toleration, &at.child("tolerations").index(i), findings);
    }
    if let Some(affinity) = &spec.affinity {
        self::affinity(affinity, &at.child("affinity"), findings);
    }
    spread(spec, &at.child("topologySpreadConstraints"), findings);
}

fn tolerates(toleration: &v1::Toleration, at: &At, findings: &mut Findings) {
    let filled = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let operator = toleration.operator.as_deref().unwrap_or_default();
    if let Some(key) = toleration.key.as_deref().filter(|key| !key.is_empty()) {
        findings.format(&at.child("key"), key, names::qualified_name(key));
    } else if operator != "Exists" {
        findings.invalid(
            &at.child("operator"),
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        findings.invalid(&at.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    let set = |text| Some(text).filter(|text: &&str| !text.is_empty());
    findings.one_of(&at.child("operator"), set(operator), &["Equal", "Exists", "Gt", "Lt"]);
    if operator == "Exists" && filled(&toleration.value) {
        findings.invalid(&at.child("operator"), "Exists", "value must be empty when `operator` is 'Exists'");
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    findings.format(&at.child("value"), value, names::label_value(value));
    findings.one_of(&at.child("effect"), set(effect), &["NoExecute", "NoSchedule", "PreferNoSchedule"]);
}

/// Nodes that are preferred, and pods to be near or far from. Nodes that are required are more than this node can check yet: they are
/// refused as a whole.
fn affinity(affinity: &v1::Affinity, at: &At, findings: &mut Findings) {
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = affinity.node_affinity.iter().flat_map(|node| &node.preferred_during_scheduling_ignored_during_execution);
    for (i, term) in preferred.flatten().enumerate() {
        let at = at.child("nodeAffinity").child(PREFERRED).index(i);
        weight(term.weight, &at, findings);
        let at = at.child("preference");
        let lists = [("matchExpressions", &term.preference.match_expressions), ("matchFields", &term.preference.match_fields)];
        for (list, requirements) in lists {
            for (j, one) in requirements.iter().flatten().enumerate() {
                let requirement =
                    Requirement { key: &one.key, operator: &one.operator, values: one.values.as_deref(), of_node: true };
                requirement.check(&at.child(list).index(j), findings);
            }
        }
    }
    if let Some(pods) = &affinity.pod_affinity {
        let at = at.child("podAffinity");
        for (i, one) in pods.required_during_scheduling_ignored_during_execution.iter().flatten().enumerate() {
            pod_term(one, &at.child(REQUIRED).index(i), findings);
        }
        for (i, one) in pods.preferred_during_scheduling_ignored_during_execution.iter().flatten().enumerate() {
            weighted(one, &at.child(PREFERRED).index(i), findings);
        }
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let at = at.child("podAntiAffinity");
        for (i, one) in pods.required_during_scheduling_ignored_during_execution.iter().flatten().enumerate() {
            pod_term(one, &at.child(REQUIRED).index(i), findings);
        }
        for (i, one) in pods.preferred_during_scheduling_ignored_during_execution.iter().flatten().enumerate() {
            weighted(one, &at.child(PREFERRED).index(i), findings);
        }
    }
}

fn weighted(term: &v1::WeightedPodAffinityTerm, at: &At, findings: &mut Findings) {
    weight(term.weight, at, findings);
    pod_term(&term.pod_affinity_term, &at.child("podAffinityTerm"), findings);
}

fn weight(weight: i32, at: &At, findings: &mut Findings) {
    if !(1..=100).contains(&weight) {
        findings.invalid(&at.child("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_term(term: &v1::PodAffinityTerm, at: &At, findings: &mut Findings) {
    selector(term.label_selector.as_ref(), &at.child("labelSelector"), findings);
    selector(term.namespace_selector.as_ref(), &at.child("namespaceSelector"), findings);
    for (i, namespace) in term.namespaces.iter().flatten().enumerate() {
        findings.format(&at.child("namespaces").index(i), namespace, names::dns_label(namespace));
    }
    keys(term.match_label_keys.as_deref(), &at.child("matchLabelKeys"), findings);
    keys(term.mismatch_label_keys.as_deref(), &at.child("mismatchLabelKeys"), findings);
    topology_key(&term.topology_key, &at.child("topologyKey"), findings);
}

/// How the pods that are alike are spread over the nodes.
fn spread(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    let mut taken = BTreeSet::new();
    for (i, constraint) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        let at = at.index(i);
        if constraint.max_skew <= 0 {
            findings.invalid(&at.child("maxSkew"), constraint.max_skew, "must be greater than zero");
        }
        topology_key(&constraint.topology_key, &at.child("topologyKey"), findings);
        let unsatisfiable = constraint.when_unsatisfiable.as_str();
        findings.one_of(&at.child("whenUnsatisfiable"), Some(unsatisfiable), &["DoNotSchedule", "ScheduleAnyway"]);
        if !taken.insert((constraint.topology_key.as_str(), unsatisfiable)) {
            let both = format!("{{{}, {unsatisfiable}}}", constraint.topology_key);
            findings.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), both);
        }
        if let Some(least) = constraint.min_domains {
            let at = at.child("minDomains");
            if least <= 0 {
                findings.invalid(&at, least, "must be greater than 0");
            }
            if unsatisfiable != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}");
                findings.invalid(&at, least, detail);
            }
        }
        let policies =
            [("nodeAffinityPolicy", &constraint.node_affinity_policy), ("nodeTaintsPolicy", &constraint.node_taints_policy)];
        for (field, policy) in policies {
            findings.one_of(&at.child(field), policy.as_deref(), &["Honor", "Ignore"]);
        }
        keys(constraint.match_label_keys.as_deref(), &at.child("matchLabelKeys"), findings);
        selector(constraint.label_selector.as_ref(), &at.child("labelSelector"), findings);
    }
}

fn topology_key(key: &str, at: &At, findings: &mut Findings) {
    if key.is_empty() {
        findings.required(at, "can not be empty");
    } else {
        findings.format(at, key, names::qualified_name(key));
    }
}

/// Names of labels.
fn keys(keys: Option<&[String]>, at: &At, findings: &mut Findings) {
    for (i, key) in keys.into_iter().flatten().enumerate() {
        findings.format(&at.index(i), key, names::qualified_name(key));
    }
}

fn selector(selector: Option<&LabelSelector>, at: &At, findings: &mut Findings) {
    let Some(selector) = selector else { return };
    labels(selector.match_labels.as_ref(), &at.child("matchLabels"), findings);
    for (i, one) in selector.match_expressions.iter().flatten().enumerate() {
        let requirement = Requirement { key: &one.key, operator: &one.operator, values: one.values.as_deref(), of_node: false };
        requirement.check(&at.child("matchExpressions").index(i), findings);
    }
}

/// What a label must be, of a pod or of a node: only of these numbers are compared.
struct Requirement<'a> {
    key: &'a str,
    operator: &'a str,
    values: Option<&'a [String]>,
    of_node: bool,
}

impl Requirement<'_> {
    fn check(&self, at: &At, findings: &mut Findings) {
        let values = self.values.unwrap_or_default();
        match self.operator {
            "In" | "NotIn" if values.is_empty() => {
                findings.required(&at.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                findings.forbidden(&at.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if self.of_node && values.len() != 1 => {
                findings.required(&at.child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            "Gt" | "Lt" if self.of_node => {}
            other => findings.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
        findings.format(&at.child("key"), self.key, names::qualified_name(self.key));
        for (i, value) in values.iter().enumerate() {
            findings.format(&at.child("values").index(i), value, names::label_value(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::check;

    #[test]
    fn tolerations_are_checked() {
        check(
            "{tolerations: [{operator: Equal}, {key: a, effect: NoSchedule, tolerationSeconds: 5}, {key: a, operator: Exists, value: v}, \
             {key: a, operator: Is, effect: Never}], containers: [{name: c, image: i}]}",
            &[
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all \
                 values and all keys\"",
                "spec.tolerations[1].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "spec.tolerations[2].operator: Invalid value: \"Exists\": value must be empty when `operator` is 'Exists'",
                "spec.tolerations[3].operator: Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\", \"Gt\", \"Lt\"",
                "spec.tolerations[3].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \
                 \"PreferNoSchedule\"",
            ],
        );
    }

    #[test]
    fn affinities_are_checked() {
        check(
            "{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: \
             [{key: a, operator: In}, {key: a, operator: Gt, values: ['1', '2']}, {key: a, operator: Gt, values: ['1']}]}}]}, \
             podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{namespaces: [Far], labelSelector: {matchExpressions: \
             [{key: a, operator: Exists, values: [x]}, {key: a, operator: Gt, values: ['1']}]}}]}, \
             podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: a}}]}}, \
             containers: [{name: c, image: i}]}",
            &[
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: \
                 Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].values: \
                 Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values: \
                 Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[1].operator: \
                 Invalid value: \"Gt\": not a valid selector operator",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[0]: Invalid value: \"Far\": a lowercase \
                 RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric \
                 character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the \
                 range 1-100",
            ],
        );
    }

    #[test]
    fn spreading_is_checked() {
        check(
            "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a/b, whenUnsatisfiable: DoNotSchedule, minDomains: 2}, \
             {maxSkew: -1, topologyKey: a/b, whenUnsatisfiable: DoNotSchedule, minDomains: 0, nodeTaintsPolicy: Never}, \
             {maxSkew: 1, topologyKey: c, whenUnsatisfiable: ScheduleAnyway, minDomains: 1}], containers: [{name: c, image: i}]}",
            &[
                "spec.topologySpreadConstraints[1].maxSkew: Invalid value: -1: must be greater than zero",
                "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{a/b, DoNotSchedule}\"",
                "spec.topologySpreadConstraints[1].minDomains: Invalid value: 0: must be greater than 0",
                "spec.topologySpreadConstraints[1].nodeTaintsPolicy: Unsupported value: \"Never\": supported values: \"Honor\", \"Ignore\"",
                "spec.topologySpreadConstraints[2].minDomains: Invalid value: 1: can only use minDomains if \
                 whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        );
    }
}
