//! `crealeph webhook`: sends a tenant's entries to other programs.

use clap::{Args, Subcommand};
use crealeph_contracts::scalar::{ClientKey, Name, RobotId, Text};
use crealeph_contracts::shape::Set;
use crealeph_contracts::webhook::WebhookRequest;
use crealeph_ledger::Seq;
use crealeph_runtime::webhook::{DeliveryReport, WebhookReport};

use super::CommandOutcome;
use super::ledger::named;
use super::listing::{ListArgs, print_page};
use super::on_ledger::Task;
use super::place::Place;
use crate::failure::{ArgumentFailure, Failure};
use crate::output::{Output, note};

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph webhook create https://example.com/hook
  crealeph webhook create https://example.com/hook --event signal --event idea --robot shop --payloads
  crealeph webhook list
  crealeph webhook deliveries 5f0c9a1b2d3e4f60
  crealeph webhook test 5f0c9a1b2d3e4f60
  crealeph webhook enable 5f0c9a1b2d3e4f60 --reason 'receiver is back'
  crealeph webhook delete 5f0c9a1b2d3e4f60

Every new entry is sent as a CloudEvent, signed according to Standard Webhooks, in the order of the log and at least once, while `crealeph serve` runs. The secret
is printed once. Without --payloads only ids are sent. Enabling a disabled webhook resumes delivery where it stopped. With --client-key, repeating the
request creates no second webhook and shows no secret.

Exit codes: 0 done, 1 refused or not delivered, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum WebhookTask {
    /// Create a webhook and print its secret, once
    Create(Create),
    /// List the webhooks of the tenant, deleted ones too
    List(ListArgs),
    /// Print how far a webhook was delivered, and why its last attempt failed
    Deliveries(Named),
    /// Send a test event now
    Test(Named),
    /// Enable a disabled webhook; delivery resumes where it stopped
    Enable(Changed),
    /// Delete a webhook and its secret
    Delete(Changed),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Where to deliver to: https, or an address that `webhook_private` under [server] grants
    url: String,
    /// Only entries of this type; can be repeated
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// Only entries of this robot
    #[arg(long)]
    robot: Option<String>,
    /// Send payloads too, not only ids
    #[arg(long)]
    payloads: bool,
    /// Note on what it is for
    #[arg(long)]
    label: Option<String>,
    /// Start after this sequence number instead of the newest
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Your own name for this request, so that repeating it creates no second webhook
    #[arg(long, value_name = "KEY")]
    client_key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// Id of the webhook, from `webhook list`
    id: String,
}

#[derive(Debug, Args)]
pub(super) struct Changed {
    /// Id of the webhook, from `webhook list`
    id: String,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
}

impl Task for WebhookTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            WebhookTask::Create(create) => create.run(at, output)?,
            WebhookTask::List(list) => {
                print_page(
                    at.webhooks(list.start()?, list.limit)?,
                    in_words,
                    "there is no webhook; create one with `crealeph webhook create URL`",
                    at,
                    output,
                )?;
            }
            WebhookTask::Deliveries(one) => {
                let report = at.webhook_deliveries(&one.id()?)?;
                match at.is_json(output) {
                    true => output.report(&report)?,
                    false => output.line(&state_in_words(&report))?,
                }
            }
            WebhookTask::Test(one) => return one.test(at, output),
            WebhookTask::Enable(change) => {
                let (id, reason) = change.read()?;
                print_change("enabled", &at.enable_webhook(&id, reason)?, at, output)?;
            }
            WebhookTask::Delete(change) => {
                let (id, reason) = change.read()?;
                print_change("deleted", &at.delete_webhook(&id, reason)?, at, output)?;
            }
        }
        Ok(CommandOutcome::Good)
    }
}

fn print_change(done: &str, webhook: &WebhookReport, at: &Place, output: &mut Output) -> Result<(), Failure> {
    match at.is_json(output) {
        true => output.report(webhook)?,
        false => output.line(&format!("{done} {}", webhook.webhook_id))?,
    }
    Ok(())
}

impl Changed {
    fn read(&self) -> Result<(Name, Option<Text>), ArgumentFailure> {
        Ok((named("webhook", &self.id, Name::parse)?, self.reason.as_deref().and_then(Text::new)))
    }
}

impl Create {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let events = self.events.iter().map(|kind| named("type", kind, Name::parse));
        let events = events.collect::<Result<Vec<Name>, ArgumentFailure>>()?;
        let url = Text::new(&self.url).ok_or_else(|| ArgumentFailure::option(self.url.as_str(), "a URL"))?;
        let request = WebhookRequest {
            url,
            events: Set::new(events).filter(|events| !events.as_slice().is_empty()),
            robot_id: self.robot.as_deref().map(|robot| named("robot", robot, RobotId::parse)).transpose()?,
            payloads: self.payloads.then_some(true),
            label: self.label.as_deref().and_then(Text::new),
            client_key: self
                .client_key
                .as_deref()
                .map(|key| named("client key", key, ClientKey::parse))
                .transpose()?,
        };
        let after = self.after.map(|number| {
            Seq::new(number).ok_or_else(|| ArgumentFailure::option(number.to_string(), "a sequence number"))
        });
        let created = at.create_webhook(request, after.transpose()?)?;
        match (at.is_json(output), &created.secret) {
            (true, _) => output.report(&created)?,
            // On a separate line, so that it can be copied.
            (false, Some(secret)) => output.line(secret)?,
            (false, None) => {}
        }
        output.flush()?;
        let id = &created.report.webhook_id;
        match &created.secret {
            Some(_) => {
                note!("created webhook {id} for tenant `{}`", at.tenant());
                note!("save the secret now: it is not shown again");
            }
            None => {
                note!("this request has created webhook {id} before; its secret is not shown again");
            }
        }
        Ok(())
    }
}

fn in_words(webhook: &WebhookReport) -> String {
    let WebhookReport { webhook_id, state, created_at, url, .. } = webhook;
    let mut line = format!("{webhook_id}  {state:<8} {created_at}  {url}");
    let events = webhook.events.as_ref().map(|events| events.join(", "));
    for (before, text) in [
        ("  robot ", &webhook.robot_id),
        ("  ", &webhook.label),
        ("  of ", &events),
        ("\n  ", &webhook.reason),
    ] {
        if let Some(text) = text {
            line.push_str(before);
            line.push_str(text);
        }
    }
    line
}

fn state_in_words(report: &DeliveryReport) -> String {
    let DeliveryReport { webhook_id, state, position, last, .. } = report;
    let mut line = format!("{webhook_id}  {state:<8} delivered up to entry {position} of {last}");
    for (before, text) in [
        ("\n  last delivery ", &report.last_delivery_at),
        ("\n  last attempt ", &report.last_attempt_at),
        ("\n  ", &report.last_error),
        ("\n  next attempt ", &report.next_attempt_at),
        ("\n  disabled ", &report.disabled_at),
    ] {
        if let Some(text) = text {
            line.push_str(before);
            line.push_str(text);
        }
    }
    line
}

impl Named {
    fn id(&self) -> Result<Name, ArgumentFailure> {
        named("webhook", &self.id, Name::parse)
    }

    fn test(&self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let tested = at.test_webhook(&self.id()?)?;
        match (at.is_json(output), &tested.error) {
            (true, _) => output.report(&tested)?,
            (false, None) => output.line("delivered")?,
            (false, Some(why)) => output.line(&format!("not delivered: {why}"))?,
        }
        Ok(if tested.delivered { CommandOutcome::Good } else { CommandOutcome::Bad })
    }
}
