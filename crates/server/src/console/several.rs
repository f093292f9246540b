//! Deciding about several similar subjects: each is read as on its own page, and they are refused if they are not similar or too many.

use crealeph_console::{self as view, MAX_SEVERAL, PageFrame, Section, SeveralPage};
use crealeph_contracts::scalar::LedgerId;
use crealeph_runtime::approvals::SubjectLikeness;

use super::{html, viewer};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::routes::approvals;

pub(super) fn several(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let mut cases = Vec::new();
    for id in ids(call)? {
        cases.push(approvals::seen(call, &id)?);
    }
    let (cases, decided): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| case.state.outcome.is_open());
    let mut likenesses = cases.iter().map(|case| SubjectLikeness::of(&case.subject, &case.state));
    let likeness = likenesses.next();
    if let (Some(first), Some(other)) = (&likeness, likenesses.find(|other| Some(other) != likeness.as_ref()))
    {
        let why =
            format!("names subjects of different kinds: {first}, and {other}; decide about them separately");
        return Err(Problem::parameter("ids", &why));
    }
    let page = SeveralPage { cases: &cases, likeness: likeness.as_ref(), decided: &decided };
    // Not renewed by itself: it would be, by each verdict that it records.
    let frame =
        PageFrame { viewer: &viewer, section: Section::Inbox, title: "Decide about several", live: None };
    Ok(html(frame.of(view::several(&viewer, &page))))
}

fn ids(call: &Call) -> Result<Vec<LedgerId>, Problem> {
    let unusable = |why: &str| Problem::parameter("ids", why);
    let text = call.text("ids").ok_or_else(|| unusable("is missing; mark some in the inbox"))?;
    let mut ids: Vec<LedgerId> = Vec::new();
    for id in text.split(',') {
        let id = LedgerId::parse(id)
            .map_err(|why| unusable(&format!("has something that is not an id: {why}")))?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    match ids.len() > MAX_SEVERAL {
        true => Err(unusable(&format!(
            "names {} subjects; decide about at most {MAX_SEVERAL} at once",
            ids.len()
        ))),
        false => Ok(ids),
    }
}
