//! The reader of configurations.
#![allow(missing_docs)]

use polylet_sdk::Config;
use polylet_sdk::json::{Json, parse};

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn number(number: &str) -> Json {
    Json::Number(number.to_owned())
}

#[test]
fn values() {
    let table = [
        ("null", Json::Null),
        (" true\n", Json::Flag(true)),
        ("false", Json::Flag(false)),
        ("0", number("0")),
        ("-12.50e+3", number("-12.50e+3")),
        (r#""""#, text("")),
        (r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#, text("a\"\\/\u{8}\u{c}\n\r\té😀é")),
        ("[]", Json::List(vec![])),
        ("[1, [\"b\"]]", Json::List(vec![number("1"), Json::List(vec![text("b")])])),
        ("{}", Json::Object(vec![])),
        (
            r#"{"b": {"c": 1}, "a": null}"#,
            Json::Object(vec![("b".to_owned(), Json::Object(vec![("c".to_owned(), number("1"))])), ("a".to_owned(), Json::Null)]),
        ),
    ];
    for (source, expected) in table {
        assert_eq!(parse(source), Ok(expected), "{source}");
    }
}

#[test]
fn what_is_no_json() {
    let table = [
        ("", "not JSON: expected a JSON value at line 1, column 1"),
        ("nul", "not JSON: expected a JSON value at line 1, column 1"),
        ("1 2", "not JSON: expected the end at line 1, column 3"),
        ("01", "not JSON: expected a number at line 1, column 1"),
        ("-", "not JSON: expected a number at line 1, column 1"),
        ("1.", "not JSON: expected a number at line 1, column 1"),
        ("1e", "not JSON: expected a number at line 1, column 1"),
        ("[1,]", "not JSON: expected a JSON value at line 1, column 4"),
        ("[1", "not JSON: expected `,` or `]` at line 1, column 3"),
        ("{\n  \"a\" 1}", "not JSON: expected `:` at line 2, column 7"),
        ("{a: 1}", "not JSON: expected a field name in quotes at line 1, column 2"),
        ("{\"a\": 1,}", "not JSON: expected a field name in quotes at line 1, column 9"),
        ("{\"a\": 1, \"a\": 2}", "field `a` is given twice at line 1, column 13"),
        ("\"a", "not JSON: expected `\"` at line 1, column 3"),
        ("\"a\nb\"", "not JSON: expected `\"` at line 1, column 3"),
        (r#""\x""#, "not JSON: expected an escape at line 1, column 3"),
        (r#""\é""#, "not JSON: expected an escape at line 1, column 3"),
        (r#""\u12é""#, "not JSON: expected four hexadecimal digits at line 1, column 4"),
        (r#""\u+123""#, "not JSON: expected four hexadecimal digits at line 1, column 4"),
        (r#""\ud800""#, "not JSON: expected a character at line 1, column 8"),
        (r#""\ud800\u0041""#, "not JSON: expected a character at line 1, column 14"),
    ];
    for (source, message) in table {
        assert_eq!(parse(source), Err(message.to_owned()), "{source}");
    }
}

#[test]
fn nesting_ends() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(&nested(65)).is_ok());
    assert_eq!(parse(&nested(66)), Err("not JSON: expected less nesting at line 1, column 66".to_owned()));
    assert!(parse(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn fields_are_read_by_kind() {
    let config = Config::of(r#"{"on": true, "name": "x", "count": 3, "nested": {"deep": [1, 2]}, "nothing": null}"#);
    let fields = config.fields().unwrap();
    assert_eq!(fields.flag("on"), Ok(Some(true)));
    assert_eq!(fields.text("name"), Ok(Some("x")));
    assert_eq!(fields.integer("count", 0..=3), Ok(Some(3)));
    assert_eq!(fields.integer("nothing", 0..=3), Ok(None));
    assert_eq!(fields.integer("absent", 0..=3), Ok(None));
    let nested = fields.object("nested").unwrap().unwrap();
    assert_eq!(nested.integers("deep", 0..=9), Ok(Some(vec![1, 2])));
    let message = nested.integers("deep", 0..=1).unwrap_err();
    assert_eq!(message, "field `nested.deep[1]`: expected a whole number from 0 to 1, found 2");
    assert_eq!(fields.flag("name").unwrap_err(), "field `name`: expected true or false, found \"x\"");
    assert_eq!(nested.only(&["a", "b"]).unwrap_err(), "unknown field `nested.deep`; the fields are: a, b");
}
