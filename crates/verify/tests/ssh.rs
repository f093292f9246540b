//! Signatures as `ssh-keygen -Y sign` and hardware keys make them: valid ones, and invalid ones.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, reason = "tests")]

use crealeph_verify::{PersonKey, PersonKeyError, SignatureError, claimed_signer, verify_signature};
use ed25519_dalek::{Signer as _, SigningKey};
use ssh_key::public::{Ed25519PublicKey, KeyData, SkEd25519};
use ssh_key::{Algorithm, HashAlg, LineEnding, PublicKey, Signature, SshSig};

#[path = "second/mod.rs"]
mod second;

const NAMESPACE: &str = "crealeph-verdict";

/// Made by OpenSSH 9.2 over `hello`.
const SAMPLES: [(&str, &str); 3] = [
    (
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICEKkiG4uypf4BmCclM+Ou8zTHAYa4M7meEo1iNdkh+C ana@host",
        "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgIQqSIbi7Kl/gGYJyUz467zNMcB
hrgzuZ4SjWI12SH4IAAAAQY3JlYWxlcGgtdmVyZGljdAAAAAAAAAAGc2hhNTEyAAAAUwAA
AAtzc2gtZWQyNTUxOQAAAECf+6lvlAcIFnQYCf5jFLUg3NEzfPs746NUipkmxki/OQbQu8
nnK8uVNM97STGadCZ+LA8B0twwsW3nahTx47cM
-----END SSH SIGNATURE-----
",
    ),
    (
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBO4kr4ztUE7oc7efvXflt3MidiyChzjudAI6Jy5exll23B+gm7n8Zw1cTfUxJCjG4tvp3KhzJWA4wtjDnPlfQ1c=",
        "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAGgAAAATZWNkc2Etc2hhMi1uaXN0cDI1NgAAAAhuaXN0cDI1NgAAAE
EE7iSvjO1QTuhzt5+9d+W3cyJ2LIKHOO50AjonLl7GWXbcH6CbufxnDVxN9TEkKMbi2+nc
qHMlYDjC2MOc+V9DVwAAABBjcmVhbGVwaC12ZXJkaWN0AAAAAAAAAAZzaGE1MTIAAABkAA
AAE2VjZHNhLXNoYTItbmlzdHAyNTYAAABJAAAAIQCQa7Nx1+LBfxeQJCdAO0MkgRqgJUGt
S2A1VENTXDEyyQAAACBqtpOy6DqlGIXztrKgWGxZM6d7nGr1NM0JqOHzrbVAdw==
-----END SSH SIGNATURE-----
",
    ),
    (
        "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBFIbLEq32kiqVh+x4LU3LzzwFhuzgAYR0m8lE3sqEHnlXqbbFnI6wY26rfc27BtpCqlzpCvuyG+Ri/+vJ7n669ha9+OQgSP98wI5gyPPXdAiIeL5sjPOdC/g6Y5rdEkvwg==",
        "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAIgAAAATZWNkc2Etc2hhMi1uaXN0cDM4NAAAAAhuaXN0cDM4NAAAAG
EEUhssSrfaSKpWH7HgtTcvPPAWG7OABhHSbyUTeyoQeeVeptsWcjrBjbqt9zbsG2kKqXOk
K+7Ib5GL/68nufrr2Fr345CBI/3zAjmDI89d0CIh4vmyM850L+Dpjmt0SS/CAAAAEGNyZW
FsZXBoLXZlcmRpY3QAAAAAAAAABnNoYTUxMgAAAIQAAAATZWNkc2Etc2hhMi1uaXN0cDM4
NAAAAGkAAAAxAN9zHF/QAda30GoH5CUouiFNh5uS/4EYVQp2XAgmbBSvxT5qjJ9Mrzxodp
IKr2LgQQAAADAPbZ/5LUh4ONWQFxQyLIzVw/Yw2sUel+m2P3dfn+xw6E2W7/Zbi3cVT4eP
Hxg9GIo=
-----END SSH SIGNATURE-----
",
    ),
];

const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC1975NjFNmwOJxysgOyL37Gg4DJ/Yfu0SnQWSKGXOht7iLltrsG5bL8foJsXnHpkvOsnYYTI4qxxj3TnL9ulWo9FUvKSAIffisCmoi1KWkQxjAERgSk5nhGya3QpexyJeBT+C/L2cJgamn5C4OvsxdAiHazcdTSKoKjR7pXxgkExX5qTNxy6MPA/gHYkk7Div+mCK8ryTlaIIrf17IXAjgG3ukTYGJdqOR3N/zO9ZgSVGHeL2FVnPe/uR//WVZeuGSqU795YEqHby4qz7jB+2g421Q/o80kiE+TVrDcrX3NW051/1HqgfVpkTC7V/G9dGau4Zf/FjNHZDJAx/kAPxL";

#[test]
fn an_openssh_signature_is_valid_only_for_its_text_namespace_and_key() {
    for (position, (line, armoured)) in SAMPLES.into_iter().enumerate() {
        let key = PersonKey::parse(line).unwrap();
        assert_eq!(claimed_signer(armoured).unwrap(), key.fingerprint());
        let facts = verify_signature(&key, NAMESPACE, b"hello", armoured).unwrap();
        assert_eq!(facts.counter, None);
        assert_eq!(verify_signature(&key, NAMESPACE, b"hello\n", armoured), Err(SignatureError::Mismatch));
        let other = verify_signature(&key, "crealeph-rule", b"hello", armoured);
        assert!(matches!(other, Err(SignatureError::Namespace { .. })), "{other:?}");
        let stranger = PersonKey::parse(SAMPLES[(position + 1) % SAMPLES.len()].0).unwrap();
        let other = verify_signature(&stranger, NAMESPACE, b"hello", armoured);
        assert!(matches!(other, Err(SignatureError::OtherKey { .. })), "{other:?}");
    }
}

#[test]
fn no_changed_byte_of_a_signature_passes() {
    for (line, armoured) in SAMPLES {
        let key = PersonKey::parse(line).unwrap();
        let body = armoured.find('\n').unwrap() + 1..armoured.rfind("-----END").unwrap();
        for at in body.step_by(3) {
            let mut bytes = armoured.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            if changed != armoured {
                assert!(verify_signature(&key, NAMESPACE, b"hello", &changed).is_err(), "{changed}");
            }
        }
        let (half, _) = armoured.split_at(armoured.len() / 2);
        for cut in ["", "-----BEGIN SSH SIGNATURE-----\n", half] {
            assert!(verify_signature(&key, NAMESPACE, b"hello", cut).is_err(), "{cut}");
        }
        assert!(verify_signature(&key, NAMESPACE, b"hello", &"A".repeat(1 << 20)).is_err());
    }
}

#[test]
fn a_key_is_known_by_its_plain_line_and_openssh_s_fingerprint() {
    let key = PersonKey::parse(SAMPLES[0].0).unwrap();
    assert_eq!(key.line().unwrap(), SAMPLES[0].0.trim_end_matches(" ana@host"));
    assert!(key.fingerprint().starts_with("SHA256:"), "{}", key.fingerprint());
    assert_eq!(PersonKey::from_bytes(&key.to_bytes().unwrap()).unwrap(), key);
}

#[test]
fn weak_and_unsupported_keys_are_refused_by_name() {
    let refused = |text: &str| PersonKey::parse(text).unwrap_err();
    let rsa = refused(RSA);
    assert!(rsa.to_string().contains("ssh-rsa") && rsa.to_string().contains("ed25519"), "{rsa}");
    assert_eq!(refused("-----BEGIN OPENSSH PRIVATE KEY-----\n"), PersonKeyError::Private);
    for garbage in ["", "hello", "ssh-ed25519", "ssh-ed25519 AAAA", &"a".repeat(1 << 20)] {
        assert!(matches!(refused(garbage), PersonKeyError::Form(_)), "{garbage}");
    }
    // The neutral point: a signature by it can be made for any text by anyone.
    let mut weak = [0; 32];
    weak[0] = 1;
    let weak = PublicKey::from(KeyData::Ed25519(Ed25519PublicKey(weak)));
    assert_eq!(refused(&weak.to_openssh().unwrap()), PersonKeyError::Weak);
}

/// The bytes that a hardware key signs: the hash of its application, flags, counter, and the hash of the data.
fn hardware_signature(flags: u8, counter: u32) -> (PersonKey, String) {
    let signing = SigningKey::from_bytes(&[7; 32]);
    let public = Ed25519PublicKey(signing.verifying_key().to_bytes());
    let data = KeyData::SkEd25519(SkEd25519::new(public, "ssh:"));
    let envelope = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, b"hello").unwrap();
    let mut signed = HashAlg::Sha256.digest(b"ssh:");
    signed.push(flags);
    signed.extend(counter.to_be_bytes());
    signed.extend(HashAlg::Sha256.digest(&envelope));
    let mut bytes = signing.sign(&signed).to_bytes().to_vec();
    bytes.push(flags);
    bytes.extend(counter.to_be_bytes());
    let signature = Signature::new(Algorithm::SkEd25519, bytes).unwrap();
    let armoured = SshSig::new(data.clone(), NAMESPACE, HashAlg::Sha512, signature).unwrap();
    let key = PersonKey::parse(&PublicKey::from(data).to_openssh().unwrap()).unwrap();
    (key, armoured.to_pem(LineEnding::LF).unwrap())
}

#[test]
fn a_hardware_key_must_have_been_touched() {
    let (key, armoured) = hardware_signature(0x05, 9);
    assert!(key.is_hardware());
    let facts = verify_signature(&key, NAMESPACE, b"hello", &armoured).unwrap();
    assert_eq!((facts.counter, facts.is_user_verified), (Some(9), true));
    let (key, armoured) = hardware_signature(0x00, 9);
    assert_eq!(verify_signature(&key, NAMESPACE, b"hello", &armoured), Err(SignatureError::NotPresent));
    let (key, armoured) = hardware_signature(0x01, 9);
    assert_eq!(verify_signature(&key, NAMESPACE, b"hullo", &armoured), Err(SignatureError::Mismatch));
}

/// Asks the second verifier the same, and expects the same answer.
#[test]
fn the_second_verifier_agrees_about_signatures_and_keys() {
    let mut asked = Vec::new();
    let mut ask = |key: &PersonKey, namespace: &'static str, message: &str, armoured: &str| {
        let line = key.line().unwrap();
        let expected = match verify_signature(key, namespace, message.as_bytes(), armoured) {
            Ok(facts) => {
                let counter = facts.counter.map_or("null".to_owned(), |counter| counter.to_string());
                format!("ok, {}, count {counter}", key.fingerprint())
            }
            Err(_) => "forged at null: is not proved: ".to_owned(),
        };
        let question = serde_json::json!({
            "ask": "ssh", "key": line, "namespace": namespace, "message": message, "signature": armoured,
        });
        asked.push((question, expected));
    };
    for (position, (line, armoured)) in SAMPLES.into_iter().enumerate() {
        let key = PersonKey::parse(line).unwrap();
        ask(&key, NAMESPACE, "hello", armoured);
        ask(&key, NAMESPACE, "hello\n", armoured);
        ask(&key, "crealeph-rule", "hello", armoured);
        let stranger = PersonKey::parse(SAMPLES[(position + 1) % SAMPLES.len()].0).unwrap();
        ask(&stranger, NAMESPACE, "hello", armoured);
        let body = armoured.find('\n').unwrap() + 1..armoured.rfind("-----END").unwrap();
        for at in body.step_by(3) {
            let mut bytes = armoured.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            ask(&key, NAMESPACE, "hello", &String::from_utf8(bytes).unwrap());
        }
        ask(&key, NAMESPACE, "hello", armoured.split_at(armoured.len() / 2).0);
    }
    for flags in [0x00, 0x01, 0x05] {
        let (key, armoured) = hardware_signature(flags, 9);
        ask(&key, NAMESPACE, "hello", &armoured);
        ask(&key, NAMESPACE, "hullo", &armoured);
    }
    let (questions, expected): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    for ((question, expected), answer) in questions.iter().zip(expected).zip(second::answers(&questions)) {
        assert!(answer.as_str().unwrap().starts_with(&expected), "{question}: {expected}, {answer}");
    }
}
