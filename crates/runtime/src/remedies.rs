//! What would change a decision of the policy, in sentences, from the evidence of its reasons.

use crealeph_contracts::json::Node;

/// What a reason's `toAllow` asks for, in sentences.
pub fn remedies(evidence: Node<'_>) -> Vec<String> {
    let Some(wanted) = evidence.member("toAllow") else {
        return vec!["nothing a client can do: the rules must be fixed".to_owned()];
    };
    let text = |key: &str| wanted.member(key).and_then(Node::string);
    let number = |key: &str| wanted.member(key).and_then(Node::number);
    let names = |key: &str| wanted.member(key).map(listed).unwrap_or_default();
    let run = |actions: Vec<String>| match actions.is_empty() {
        true => "append it to the ledger (it comes from outside)".to_owned(),
        false => format!("run {}", actions.join(" or ")),
    };
    if wanted.member("anyOf").is_some() {
        let from = text("notBefore").map(|from| format!(" from {from}")).unwrap_or_default();
        let until = text("notAfter").unwrap_or_default();
        return vec![format!(
            "{}{from} to {until}: {}",
            names("anyOf").join(" or "),
            run(names("refreshedBy"))
        )];
    }
    if let Some(least) = number("lineageCountAtLeast") {
        return vec![format!("a snapshot that rests on at least {least} entries")];
    }
    if let Some(age) = number("meanAgeMinutesAtMost") {
        let of = names("of").join(", ");
        return vec![format!("{of} at most {age} minutes old on average: {}", run(names("refreshedBy")))];
    }
    if wanted.member("requestedActionOneOf").is_some() {
        return vec![format!("request one of {}", names("requestedActionOneOf").join(", "))];
    }
    let mut remedies = vec!["a coherent snapshot".to_owned()];
    for (kind, actions) in wanted.member("refreshedBy").into_iter().flat_map(Node::members) {
        remedies.push(format!("regenerate {}: {}", kind.text_value(), run(listed(actions))));
    }
    if evidence.member("orForDrafts").is_some() {
        remedies.push("or, for drafts by builder.run alone, the threshold allowDraftOnly: 1".to_owned());
    }
    remedies
}

fn listed(array: Node<'_>) -> Vec<String> {
    array.elements().map(|name| name.text_value().into_owned()).collect()
}
