//! Deciding about several similar subjects: each is read as on its own page, and they are refused if they are not similar or too many.

use crealeph_console::{self as view, MAX_SEVERAL, PageFrame, Section, SeveralPage, SubjectView};
use crealeph_contracts::scalar::LedgerId;
use crealeph_runtime::approvals::SubjectLikeness;

use super::{html, viewer};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::routes::approvals;

pub(super) fn several(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let approver = approvals::approver(call)?;
    let (mut cases, mut decided) = (Vec::new(), Vec::new());
    for id in ids(call)? {
        let case = approvals::seen(call, &id)?;
        if !case.state.outcome.is_open() {
            decided.push(case);
            continue;
        }
        let evidence_ids = approvals::evidence_ids(call, &case)?;
        cases.push(SubjectView { case, evidence_ids });
    }
    let mut likenesses = cases.iter().map(|view| SubjectLikeness::of(&view.case.subject, &view.case.state));
    let likeness = likenesses.next();
    if let (Some(first), Some(other)) = (&likeness, likenesses.find(|other| Some(other) != likeness.as_ref()))
    {
        let why =
            format!("names subjects of different kinds: {first}, and {other}; decide about them separately");
        return Err(Problem::parameter("ids", &why));
    }
    let (likeness, approver) = (likeness.as_ref(), approver.as_ref());
    let page = SeveralPage { cases: &cases, likeness, approver, decided: &decided };
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
