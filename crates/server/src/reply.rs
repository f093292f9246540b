//! An answer before it is a response: status, media type, body.

use axum::body::Body;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;

/// The media type of JSON.
pub(crate) const JSON_TYPE: &str = "application/json";

/// What every answer has that says nothing else: a browser runs, loads and frames nothing of it, and hands it to no other site.
const USUAL_HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: StatusCode,
    pub media_type: &'static str,
    pub body: Body,
    pub headers: HeaderMap,
}

impl Reply {
    /// A document that is JSON text already.
    pub(crate) fn json(text: String) -> Self {
        Reply::text(JSON_TYPE, text)
    }

    /// A value as JSON.
    pub(crate) fn json_of(value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Reply::json(text),
            // Only a map whose keys are no strings cannot be written, and there is none.
            Err(error) => {
                tracing::error!("an answer cannot be written: {error}");
                Reply { status: StatusCode::INTERNAL_SERVER_ERROR, ..Reply::json("{}".to_owned()) }
            }
        }
    }

    /// A text of a media type.
    pub(crate) fn text(media_type: &'static str, text: impl Into<Body>) -> Self {
        Reply { status: StatusCode::OK, media_type, body: text.into(), headers: HeaderMap::new() }
    }

    /// The response, with what every one has.
    pub(crate) fn into_response(self, request_id: &HeaderValue) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        for (name, value) in USUAL_HEADERS {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert("x-request-id", request_id.clone());
        response
    }
}
