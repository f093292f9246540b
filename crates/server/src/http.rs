//! From a request to its answer: the checks that every request goes through, in order, and the router that the table
//! of routes defines. Host and origin of the request, size of URL and headers; then per route the key and its role, its rate,
//! the parameters, the body; then the handler.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, REFERER,
    STRICT_TRANSPORT_SECURITY,
};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use crealeph_runtime::access::{KeyIdentity, RecognisedKeys};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tower_service::Service as _;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};

use crate::app::App;
use crate::call::{Call, read_form, read_path, read_query};
use crate::console;
use crate::limits::CountedRequest;
use crate::prefer::Preferences;
use crate::problem::{Problem, ProblemKind};
use crate::reply::{JSON_TYPE, Reply};
use crate::route::{Access, Handler, RobotScope, Route, Surface, Verb};
use crate::routes::routes;
use crate::session::form_token;
use crate::settings::ServerBounds;

/// The longest id of a request that is taken over from a client.
const MAX_REQUEST_ID: usize = 64;
/// The media type of a form, and the field with the session's token.
const FORM_TYPE: &str = "application/x-www-form-urlencoded";
pub(crate) const FORM_TOKEN: &str = "form";

/// For how long browsers remember that a name is reached by HTTPS alone: a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// How the ids of this process begin, and how many it gave. Nothing relies on ids being hard to guess.
static PROCESS: LazyLock<u64> = LazyLock::new(|| {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
});
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The id of a request, as its response names it.
#[derive(Clone)]
struct RequestId(HeaderValue);

impl RequestId {
    /// The client's, if it is a plain word; else a new one.
    fn of(headers: &HeaderMap) -> Self {
        let is_plain = |value: &&HeaderValue| {
            let bytes = value.as_bytes();
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            (1..=MAX_REQUEST_ID).contains(&bytes.len()) && bytes.iter().all(is_word)
        };
        if let Some(value) = headers.get("x-request-id").filter(is_plain) {
            return RequestId(value.clone());
        }
        let text = format!("{:016x}{:08x}", *PROCESS, REQUESTS.fetch_add(1, Ordering::Relaxed));
        RequestId(HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown")))
    }

    fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or("unknown")
    }
}

/// The router of all routes.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    let api = routes().map(|route| (route, Surface::Api));
    for (route, surface) in api.chain(console::pages().map(|page| (page, Surface::Page))) {
        let filter = match route.method {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Delete => MethodFilter::DELETE,
        };
        let app = Arc::clone(app);
        let handler = move |path: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
            serve(Arc::clone(&app), route, surface, path, request)
        };
        router = router.route(route.path, on(filter, handler));
    }
    let no_route = |request: Request| async move {
        let problem = Problem::new(ProblemKind::NoRoute, "there is no such path").with_hint("see /docs");
        refuse(&request_id(&request), request.headers(), problem)
    };
    // The router says in `Allow` which methods the path has.
    let no_method = |request: Request| async move {
        let problem = Problem::new(ProblemKind::MethodNotAllowed, "the path does not support this method");
        refuse(&request_id(&request), request.headers(), problem)
    };
    router.fallback(no_route).method_not_allowed_fallback(no_method)
}

fn request_id(request: &Request) -> RequestId {
    request.extensions().get::<RequestId>().cloned().unwrap_or_else(|| RequestId::of(request.headers()))
}

/// The route that answered, for what is counted.
#[derive(Clone, Copy)]
struct ServedRoute(&'static Route);

/// The bound that a request hit, for what is counted.
#[derive(Clone, Copy)]
struct HitBound(&'static str);

/// A response outside the routes.
pub(crate) fn answer_alone(headers: &HeaderMap, answer: Result<Reply, Problem>) -> Response<Body> {
    answer_with(&RequestId::of(headers), answer)
}

fn answer_with(id: &RequestId, answer: Result<Reply, Problem>) -> Response<Body> {
    let bound = answer.as_ref().err().and_then(Problem::bound_name);
    let reply = answer.unwrap_or_else(|problem| problem.into_reply(id.as_str()));
    Span::current().record("status", reply.status.as_u16());
    let mut response = reply.into_response(&id.0);
    if let Some(name) = bound {
        response.extensions_mut().insert(HitBound(name));
    }
    response
}

/// A refusal outside the routes: a page for a browser that opens one, a problem document for programs.
fn refuse(id: &RequestId, headers: &HeaderMap, problem: Problem) -> Response<Body> {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    match accepted.is_some_and(|accepted| accepted.contains("text/html")) {
        true => answer_page(id, &problem, console::problem_page(&problem, None, id.as_str())),
        false => answer_with(id, Err(problem)),
    }
}

/// The page of a problem; the bound that it hit is counted all the same.
fn answer_page(id: &RequestId, problem: &Problem, page: Reply) -> Response<Body> {
    let mut response = answer_with(id, Ok(page));
    if let Some(name) = problem.bound_name() {
        response.extensions_mut().insert(HitBound(name));
    }
    response
}

/// The answer to a client that does not encrypt although the server has TLS.
pub(crate) fn refuse_plain(headers: &HeaderMap) -> Response<Body> {
    let problem =
        Problem::new(ProblemKind::BadRequest, "this port speaks HTTPS, and the request is plain HTTP");
    refuse(&RequestId::of(headers), headers, problem.with_hint("use a URL that begins with https://"))
}

/// Answers a request within its time.
pub(crate) async fn answer(app: Arc<App>, mut router: Router, mut request: Request) -> Response<Body> {
    let started = Instant::now();
    let id = RequestId::of(request.headers());
    let is_strict = app.names.is_strict(request.headers());
    let method = request.method().as_str();
    let span = info_span!(
        "request",
        id = id.as_str(),
        method,
        route = Empty,
        tenant = Empty,
        key = Empty,
        status = Empty
    );
    let mut response = async {
        if let Err(problem) = check_head(&app, &request) {
            return refuse(&id, request.headers(), problem);
        }
        request.extensions_mut().insert(id.clone());
        match router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
    .instrument(span)
    .await;
    if is_strict {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
    count(&app, &response, started);
    response
}

/// Counts a request whose response begins now.
fn count(app: &App, response: &Response<Body>, started: Instant) {
    let (route, method) = match response.extensions().get::<ServedRoute>() {
        Some(ServedRoute(route)) => (route.path, route.method.word()),
        None => ("none", "none"),
    };
    app.metrics.count_request(route, method, response.status().as_u16(), started.elapsed());
    if let Some(HitBound(name)) = response.extensions().get() {
        app.metrics.count_bound(name);
    }
}

/// What can be judged before anything is read: sizes, name, origin.
fn check_head(app: &App, request: &Request) -> Result<(), Problem> {
    let bounds = &app.settings.bounds;
    let url = request.uri().path_and_query().map_or(0, |target| target.as_str().len()) as u64;
    if url > bounds.max_url_bytes {
        let detail = format!("the URL is {url} bytes long, and the maximum is {}", bounds.max_url_bytes);
        let kind = ProblemKind::TooLarge(StatusCode::URI_TOO_LONG);
        return Err(Problem::bound(kind, "max_url_bytes", bounds.max_url_bytes, detail));
    }
    let kind = ProblemKind::TooLarge(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let headers = request.headers();
    if headers.len() as u64 > bounds.max_headers {
        let detail =
            format!("the request has {} headers, and the maximum is {}", headers.len(), bounds.max_headers);
        return Err(Problem::bound(kind, "max_headers", bounds.max_headers, detail));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes as u64 > bounds.max_header_bytes {
        let detail = format!("the headers are {bytes} bytes, and the maximum is {}", bounds.max_header_bytes);
        return Err(Problem::bound(kind, "max_header_bytes", bounds.max_header_bytes, detail));
    }
    app.names.check(request.uri(), headers)
}

/// What a request holds on to until its answer is sent.
struct RequestPermits {
    _request: OwnedSemaphorePermit,
    _of_key: Option<CountedRequest>,
}

/// Answers a request to one route, within its time.
async fn serve(
    app: Arc<App>,
    route: &'static Route,
    surface: Surface,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response<Body> {
    Span::current().record("route", route.path);
    let id = request_id(&request);
    let bounds = &app.settings.bounds;
    let (name, bound_ms) = match route.handler {
        Handler::Running(_) | Handler::Accepting(_) => ("run_timeout_ms", bounds.run_timeout_ms),
        _ => ("request_timeout_ms", bounds.request_timeout_ms),
    };
    let shown = shown_page(&request);
    let session_token = app.session_token(request.headers()).map(str::to_owned);
    let who = OnceLock::new();
    let refused = |problem: Problem| match surface {
        Surface::Api => answer_with(&id, Err(problem)),
        Surface::Page if problem.kind() == ProblemKind::Unauthenticated => {
            answer_with(&id, console::to_sign_in(&shown))
        }
        Surface::Page => {
            let viewer = console::viewer_of(&app, who.get(), session_token.as_deref()).ok();
            answer_page(&id, &problem, console::problem_page(&problem, viewer.as_ref(), id.as_str()))
        }
    };
    let handled = handle(&app, route, surface, path, request, &who);
    let answer = timeout(ServerBounds::time(bound_ms), handled).await;
    let mut response = match answer {
        Ok(Ok((reply, held))) => held_until_sent(answer_with(&id, Ok(reply)), held),
        Ok(Err(problem)) => refused(problem),
        Err(_) => {
            let detail = format!("the request was not answered within {bound_ms} ms");
            let problem = Problem::bound(ProblemKind::TimedOut, name, bound_ms, detail);
            let hint = "its changes may still be written: send it again with the same keys";
            refused(problem.with_hint(hint))
        }
    };
    response.extensions_mut().insert(ServedRoute(route));
    response
}

/// The page that a browser shows while it sends a request: the one that it asks for, or the one that has the form.
fn shown_page(request: &Request) -> String {
    let (headers, uri) = (request.headers(), request.uri());
    let referer = || headers.get(REFERER)?.to_str().ok()?.parse::<Uri>().ok();
    let is_own = |from: &Uri| {
        let host = headers.get(HOST).map(HeaderValue::as_bytes);
        from.authority().is_some_and(|from| host == Some(from.as_str().as_bytes()))
    };
    let shown = match *request.method() == Method::POST {
        true => referer().filter(is_own),
        false => Some(uri.clone()),
    };
    let target = shown.as_ref().and_then(|shown| shown.path_and_query());
    target.map_or("/", PathAndQuery::as_str).to_owned()
}

/// Checks a request and has it handled; `found` is who sent it, once that is known.
async fn handle(
    app: &Arc<App>,
    route: &'static Route,
    surface: Surface,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    found: &OnceLock<KeyIdentity>,
) -> Result<(Reply, Option<RequestPermits>), Problem> {
    let (call, held) = match route.handler {
        Handler::Immediate(reply) => {
            read_query(route, surface, request.uri().query())?;
            return Ok((reply(), None));
        }
        _ => call(app, route, surface, path, request, found).await?,
    };
    let reply = match route.handler {
        Handler::Immediate(reply) => reply(),
        Handler::Quick(now, later) => match now(&call) {
            Some(answer) => answer?,
            None => app.blocking(move || later(&call)).await?,
        },
        Handler::Blocking(handler) => app.blocking(move || handler(&call)).await?,
        Handler::Running(handler) => app.running(move || handler(&call)).await?,
        Handler::Accepting(handler) => handler(Arc::clone(app), Arc::new(call)).await?,
        Handler::Streaming(handler) => {
            return Ok((app.blocking(move || handler(&call)).await?, None));
        }
    };
    Ok((reply, Some(held)))
}

/// The response, which counts as a request in flight until it is sent.
fn held_until_sent(mut response: Response<Body>, held: Option<RequestPermits>) -> Response<Body> {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _until_sent = &held;
            frame
        }))
    })
}

/// Reads and checks a request; what it returns may be handled.
async fn call(
    app: &Arc<App>,
    route: &'static Route,
    surface: Surface,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    found: &OnceLock<KeyIdentity>,
) -> Result<(Call, RequestPermits), Problem> {
    let bounds = &app.settings.bounds;
    let permit = Arc::clone(&app.requests).try_acquire_owned().map_err(|_| {
        let detail = "the server has reached its limit of requests in flight; try again";
        Problem::bound(ProblemKind::Overloaded, "max_requests", bounds.max_requests, detail)
    })?;
    let identity = match route.access {
        Access::Public => None,
        Access::Key(permission, scope) => {
            let identity = identify(app, surface, request.method(), request.headers()).await?;
            let identity = found.get_or_init(|| identity).clone();
            let is_refused = scope == RobotScope::Refused && identity.robot_id.is_some();
            if !identity.may(permission) || is_refused {
                let detail = match is_refused {
                    true => "a key that is restricted to a robot cannot be used for this".to_owned(),
                    false => format!("a key of the role `{}` cannot be used for this", identity.role),
                };
                let hint = format!("use a key of the role {}", route.access.roles().join(" or "));
                return Err(Problem::new(ProblemKind::Forbidden, detail).with_hint(hint));
            }
            Some(identity)
        }
    };
    let counted = match &identity {
        Some(who) => {
            let name = (who.tenant_id.clone(), who.key_id.clone());
            Some(app.keys.count(name, bounds, Instant::now())?)
        }
        None => None,
    };
    let path = path.map_err(|_| Problem::new(ProblemKind::BadRequest, "the path is not UTF-8"))?;
    let mut parameters = read_path(route, &path)?;
    parameters.extend(read_query(route, surface, request.uri().query())?);
    let last_event_id = match request.headers().get("last-event-id").map(HeaderValue::to_str) {
        Some(Ok(id)) => Some(id.to_owned()),
        Some(Err(_)) => return Err(Problem::new(ProblemKind::BadRequest, "`Last-Event-ID` is not text")),
        None => None,
    };
    let preferences = Preferences::of(request.headers());
    let request_id = request_id(&request).as_str().to_owned();
    let origin = request.headers().get(ORIGIN).and_then(|origin| origin.to_str().ok()).map(str::to_owned);
    let is_https = app.names.is_https(request.headers());
    let is_page = |_: &&str| surface == Surface::Page;
    let session_token = app.session_token(request.headers()).filter(is_page).map(str::to_owned);
    let (mut body, mut form) = (Bytes::new(), Vec::new());
    match (&route.body, surface) {
        (Some(_), Surface::Api) => body = read_body(bounds, request, JSON_TYPE).await?,
        (Some(_), Surface::Page) => {
            let form_token = session_token.as_deref().map(form_token);
            form = own_form(bounds, request, form_token.as_deref(), identity.is_some()).await?
        }
        (None, _) => {}
    }
    let app = Arc::clone(app);
    let call = Call {
        app,
        request_id,
        identity,
        parameters,
        body,
        origin,
        last_event_id,
        preferences,
        is_https,
        session_token,
        form,
    };
    Ok((call, RequestPermits { _request: permit, _of_key: counted }))
}

/// A form of one of the console's own pages: sent from there, and with the session's token if there is a session.
async fn own_form(
    bounds: &ServerBounds,
    request: Request,
    form_token: Option<&str>,
    has_session: bool,
) -> Result<Vec<(String, String)>, Problem> {
    let refused = |what: &str| Err(Problem::new(ProblemKind::OriginRefused, what));
    let headers = request.headers();
    // An origin that is there was compared already.
    let is_own = headers.contains_key(ORIGIN)
        || headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    if !is_own {
        return refused("the form was not sent by a page of this server");
    }
    let form = read_form(&read_body(bounds, request, FORM_TYPE).await?)?;
    let given = form.iter().find(|(name, _)| name == FORM_TOKEN).map(|(_, value)| value.as_str());
    if has_session && (form_token.is_none() || given != form_token) {
        return refused("the form is from another session; reload the page");
    }
    Ok(form)
}

/// Who sends a request: by its API key, or by the session of a browser that reads or uses a page.
async fn identify(
    app: &Arc<App>,
    surface: Surface,
    method: &Method,
    headers: &HeaderMap,
) -> Result<KeyIdentity, Problem> {
    let reads = method == Method::GET || method == Method::HEAD;
    let session = app.session_token(headers).filter(|_| !headers.contains_key(AUTHORIZATION));
    let who = match (surface, session) {
        (Surface::Page, Some(token)) => recognise(app, &app.sessions, token).await?,
        (Surface::Api, Some(token)) if reads => recognise(app, &app.sessions, token).await?,
        (Surface::Page, None) => None,
        (Surface::Api, _) => Some(identify_key(app, headers).await?),
    };
    let ended = || Problem::new(ProblemKind::Unauthenticated, "there is no session, or it has ended");
    let who = who.ok_or_else(ended)?;
    Span::current().record("tenant", who.tenant_id.as_str()).record("key", who.key_id.as_str());
    Ok(who)
}

/// Who holds a token; from the log, unless nothing was written since it was read.
async fn recognise(
    app: &Arc<App>,
    tokens: &Arc<RecognisedKeys>,
    token: &str,
) -> Result<Option<KeyIdentity>, Problem> {
    match tokens.known(&app.ledger, token) {
        Some(known) => Ok(Some(known)),
        None => {
            let (token, ledger, tokens) = (token.to_owned(), app.ledger.clone(), Arc::clone(tokens));
            app.blocking(move || Ok(tokens.authenticate(&ledger, &token)?)).await
        }
    }
}

/// Who sends a request, by its API key.
async fn identify_key(app: &Arc<App>, headers: &HeaderMap) -> Result<KeyIdentity, Problem> {
    let refused = |why: &str| {
        Problem::new(ProblemKind::Unauthenticated, why)
            .with_hint("send `Authorization: Bearer TOKEN`; `crealeph key create` creates a key")
    };
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(refused("the request has no key"));
    };
    let given = value.to_str().ok().and_then(|text| text.split_once(' '));
    let token = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token else { return Err(refused("the request has no bearer token")) };
    let found = recognise(app, &app.recognised, token.trim()).await?;
    found.ok_or_else(|| refused("the key is unknown, has expired or was revoked"))
}

/// Reads a body of a media type within its bound.
async fn read_body(bounds: &ServerBounds, request: Request, wanted: &str) -> Result<Bytes, Problem> {
    let headers = request.headers();
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_wanted = media_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted));
    if !is_wanted {
        let detail = format!("the body must be {wanted}, and `Content-Type` must say so");
        return Err(Problem::new(ProblemKind::MediaType, detail));
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::new(ProblemKind::MediaType, "the body must not be compressed"));
    }
    let most = bounds.max_body_bytes;
    let too_large = || {
        let detail = format!("the body is larger than {most} bytes");
        Problem::bound(ProblemKind::TooLarge(StatusCode::PAYLOAD_TOO_LARGE), "max_body_bytes", most, detail)
    };
    let stated = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|stated| stated > most) {
        return Err(too_large());
    }
    match Limited::new(request.into_body(), ServerBounds::size(most)).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Err(_) => Err(Problem::new(ProblemKind::BadRequest, "the body ended before it was complete")),
    }
}
