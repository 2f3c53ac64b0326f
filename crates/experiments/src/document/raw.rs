//! An experiment file as TOML has it.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::Output;
use crate::claims::Relation;
use crate::outcome::Kind;
use crate::tolerance::Class;

pub(super) type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub paper: String,
    pub title: String,
    #[serde(default)]
    pub machines: BTreeMap<String, String>,
    /// Definitions that were chosen with the values of claims in view, and these claims.
    #[serde(default)]
    pub fitted: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub options: Vec<String>,
    /// Texts that several claims share.
    #[serde(default)]
    pub text: BTreeMap<String, Text>,
    #[serde(default, rename = "let")]
    pub definitions: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub run: BTreeMap<String, Spanned<Run>>,
    pub part: Vec<Part>,
    #[serde(default)]
    pub claim: Vec<Claim>,
    #[serde(default)]
    pub heat: Vec<Heat>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(default)]
    pub parameters: String,
    pub name: Text,
    pub machine: Option<Text>,
    #[serde(default)]
    pub set: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub quick: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub full: BTreeMap<String, Spanned<Value>>,
    pub trial: Option<String>,
    pub program: Option<Text>,
    #[serde(default)]
    pub arguments: Vec<Text>,
    pub nodes: Option<Spanned<Value>>,
    #[serde(default)]
    pub beside: Vec<Spanned<Vec<Text>>>,
    pub progress: Option<Text>,
    pub if_it_fails: Option<Value>,
    #[serde(default)]
    pub output: Output,
    pub cost: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub name: String,
    pub title: String,
    #[serde(default)]
    pub claim: Vec<Claim>,
    #[serde(default)]
    pub on_host: Vec<Claim>,
    #[serde(default)]
    pub sheet: Vec<Sheet>,
    #[serde(default)]
    pub row: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub id: Text,
    #[serde(default)]
    pub each: Vec<Text>,
    pub untestable: Option<Text>,
    pub class: Option<Class>,
    pub kind: Option<Kind>,
    #[serde(default)]
    pub with: Vec<Text>,
    pub measure: Option<Spanned<Value>>,
    pub left: Option<Spanned<Value>>,
    pub right: Option<Spanned<Value>>,
    pub needs: Option<String>,
    pub unit: Option<String>,
    /// The value to hold it against, if no file of published claims has it.
    pub value: Option<f64>,
    pub relation: Option<Relation>,
    pub remark: Option<Text>,
    pub reading: Option<Text>,
    pub explanation: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sheet {
    pub name: String,
    pub title: String,
    pub x: String,
    pub y: String,
    #[serde(default)]
    pub log_x: bool,
    pub needs: Option<String>,
    pub series: Vec<Series>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Series {
    #[serde(default)]
    pub each: Vec<Text>,
    pub name: Text,
    pub points: Text,
    pub x: Option<Text>,
    pub y: Text,
    pub claim: Option<Text>,
    #[serde(default)]
    pub dashed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    #[serde(default)]
    pub each: Vec<Text>,
    pub when: Option<Text>,
    pub name: Text,
    pub value: Text,
    pub unit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Heat {
    pub title: String,
    pub run: Text,
}
