//! From TOML to a checked experiment file.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::{Spanned, Value};

use super::raw::{self, Text};
use super::{
    Body, ByEffort, Check, Definition, Document, DocumentError, Heat, Measurement, Parameter, Part,
    Program, Quantity, Row, RunTemplate, Series, Sheet, Way,
};
use crate::bands::Bands;
use crate::claims;
use crate::language::Problem;
use crate::language::ast::{Argument, Expr, Node};
use crate::language::names::Names;
use crate::language::parse::parse;
use crate::language::template::Template;
use crate::nearest::nearest;

type Result<T> = std::result::Result<T, DocumentError>;

impl Document {
    /// Reads an experiment file and the claims that it is about.
    ///
    /// # Errors
    /// The first thing that is wrong with either: a key or a name that is not known, an expression that is none, a
    /// name that depends on itself, a claim without an experiment or an experiment without a claim.
    ///
    /// Without published claims the file itself gives the values that its claims are held against.
    pub fn parse(file: &str, text: &str, published: Option<&str>) -> Result<Document> {
        let compiler = Compiler { file, text };
        let raw: raw::File = toml::from_str(text).map_err(|error| DocumentError {
            file: file.to_owned(),
            line: error.span().map(|span| compiler.line(span.start)),
            problem: error.message().to_owned(),
        })?;
        let mut document = compiler.document(raw)?;
        Names::of(&document).check_document().map_err(|what| compiler.error(None, what))?;
        document.published = match published {
            Some(published) => {
                claims::parse(published).map_err(|problem| compiler.error(None, problem))?
            }
            None => document.checks.iter().map(|check| own_claim(&document.paper, check)).collect(),
        };
        compiler.claims_match(&document)?;
        document.find_repeats();
        document.find_fitted().map_err(|problem| compiler.error(None, problem))?;
        Ok(document)
    }
}

/// The claim of a check whose file gives the value that it is held against.
fn own_claim(paper: &str, check: &Check) -> claims::Claim {
    let (value, relation) = check.own;
    let (is_ordering, unit) = match &check.way {
        Way::Measured(way) => (matches!(way.quantity, Quantity::Sides(..)), way.unit.clone()),
        Way::Untestable(_) => (false, None),
    };
    claims::Claim {
        id: format!("{paper}/{}", check.id),
        place: String::new(),
        kind: if is_ordering { claims::Kind::Ordering } else { claims::Kind::Value },
        metric: String::new(),
        config: String::new(),
        value,
        unit: unit.unwrap_or_default(),
        relation: relation.unwrap_or(claims::Relation::Equal),
        quote: String::new(),
        note: None,
    }
}

struct Compiler<'a> {
    file: &'a str,
    text: &'a str,
}

impl Compiler<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text[..offset.min(self.text.len())].matches('\n').count() + 1
    }

    fn error(&self, span: Option<&Range<usize>>, problem: impl Into<String>) -> DocumentError {
        let line = span.map(|span| self.line(span.start));
        DocumentError { file: self.file.to_owned(), line, problem: problem.into() }
    }

    fn wrong(&self, span: &Range<usize>, text: &str, problem: &Problem) -> DocumentError {
        let rest = text.get(problem.at..).unwrap_or_default();
        let near: String = rest.chars().take(30).collect();
        let place = if near.is_empty() { String::new() } else { format!(" at '{near}'") };
        self.error(Some(span), format!("{}{place}", problem.what))
    }

    fn expression(&self, text: &Text) -> Result<Expr> {
        parse(text.get_ref()).map_err(|problem| self.wrong(&text.span(), text.get_ref(), &problem))
    }

    fn template(&self, text: &Text) -> Result<Template> {
        Template::parse(text.get_ref())
            .map_err(|problem| self.wrong(&text.span(), text.get_ref(), &problem))
    }

    fn optional(&self, text: Option<&Text>) -> Result<Template> {
        text.map_or_else(|| Ok(Template(vec![])), |text| self.template(text))
    }

    /// A value of a definition or a measure: a text is an expression, texts in a list are texts.
    fn value(&self, value: &Value, span: &Range<usize>) -> Result<Expr> {
        match value {
            Value::String(text) => parse(text).map_err(|problem| self.wrong(span, text, &problem)),
            value => self.literal(value, span),
        }
    }

    fn literal(&self, value: &Value, span: &Range<usize>) -> Result<Expr> {
        let node = match value {
            Value::String(text) => Node::Text(text.clone()),
            Value::Integer(number) => Node::Number(*number as f64),
            Value::Float(number) => Node::Number(*number),
            Value::Boolean(flag) => Node::Bool(*flag),
            Value::Array(all) => {
                let all: Result<_> = all.iter().map(|one| self.literal(one, span)).collect();
                Node::List(all?)
            }
            Value::Datetime(_) | Value::Table(_) => {
                return Err(self.error(Some(span), "expected a number, a text or a list"));
            }
        };
        Ok(Expr { at: 0, node })
    }

    fn document(&self, raw: raw::File) -> Result<Document> {
        let mut document = Document {
            paper: raw.paper,
            title: raw.title,
            published: vec![],
            machines: raw.machines,
            options: raw.options,
            definitions: self.definitions(&raw.text, &raw.definitions, &raw.run)?,
            parts: vec![],
            checks: vec![],
            on_host: vec![],
            sheets: vec![],
            rows: vec![],
            heats: vec![],
            chosen: raw.fitted,
            fitted: BTreeMap::new(),
            bands: Bands::default(),
        };
        for (at, part) in raw.part.into_iter().enumerate() {
            for claim in &part.claim {
                let checks = self.checks(claim, Some(at), &document)?;
                document.checks.extend(checks);
            }
            for claim in &part.on_host {
                let checks = self.checks(claim, Some(at), &document)?;
                document.on_host.extend(checks);
            }
            for sheet in part.sheet {
                document.sheets.push(self.sheet(sheet, at)?);
            }
            for row in part.row {
                document.rows.push(self.row(row, at)?);
            }
            document.parts.push(Part { name: part.name, title: part.title });
        }
        for claim in &raw.claim {
            let checks = self.checks(claim, None, &document)?;
            document.checks.extend(checks);
        }
        for heat in raw.heat {
            let run = self.expression(&heat.run)?;
            document.heats.push(Heat { title: heat.title, run });
        }
        Ok(document)
    }

    fn definitions(
        &self,
        texts: &BTreeMap<String, Text>,
        values: &BTreeMap<String, Spanned<Value>>,
        runs: &BTreeMap<String, Spanned<raw::Run>>,
    ) -> Result<BTreeMap<String, Definition>> {
        let mut all = BTreeMap::new();
        let mut add = |key: &str, span: Option<&Range<usize>>, body: Body| {
            let (name, parameters) = self.head(key, span)?;
            match all.insert(name.clone(), Definition { parameters, body }) {
                None => Ok(()),
                Some(_) => Err(self.error(span, format!("{name} is defined twice"))),
            }
        };
        for (key, text) in texts {
            let expr = Expr { at: 0, node: Node::Filled(self.template(text)?) };
            add(
                key,
                Some(&text.span()),
                Body::Value(ByEffort { quick: expr.clone(), full: expr }),
            )?;
        }
        for (key, value) in values {
            let span = value.span();
            add(key, Some(&span), Body::Value(self.by_effort(value.get_ref(), &span)?))?;
        }
        for (key, run) in runs {
            let head = match run.get_ref().parameters.as_str() {
                "" => key.clone(),
                parameters => format!("{key}({parameters})"),
            };
            add(&head, Some(&run.span()), Body::Run(Box::new(self.run(run.get_ref())?)))?;
        }
        Ok(all)
    }

    /// Name and parameters of a definition: `peak(design, chip='mesh')`.
    fn head(&self, key: &str, span: Option<&Range<usize>>) -> Result<(String, Vec<Parameter>)> {
        let malformed = || self.error(span, format!("'{key}' is not a name with parameters"));
        let expr = parse(key).map_err(|_| malformed())?;
        let (name, arguments) = match expr.node {
            Node::Name(name) => return Ok((name, vec![])),
            Node::Call(name, arguments) => (name, arguments),
            _ => return Err(malformed()),
        };
        let parameter = |argument: Argument| match (argument.name, argument.value) {
            (Some(name), default) => Ok(Parameter { name, default: Some(default) }),
            (None, Expr { node: Node::Name(name), .. }) => Ok(Parameter { name, default: None }),
            _ => Err(malformed()),
        };
        let parameters: Result<_> = arguments.into_iter().map(parameter).collect();
        Ok((name, parameters?))
    }

    fn by_effort(&self, value: &Value, span: &Range<usize>) -> Result<ByEffort<Expr>> {
        let Value::Table(table) = value else {
            let expr = self.value(value, span)?;
            return Ok(ByEffort { quick: expr.clone(), full: expr });
        };
        match (table.get("quick"), table.get("full"), table.len()) {
            (Some(quick), Some(full), 2) => {
                Ok(ByEffort { quick: self.value(quick, span)?, full: self.value(full, span)? })
            }
            _ => Err(self.error(Some(span), "expected a value, or { quick = ..., full = ... }")),
        }
    }

    fn run(&self, raw: &raw::Run) -> Result<RunTemplate> {
        let settings = |own: &BTreeMap<String, Spanned<Value>>| {
            let all = raw.set.iter().chain(own);
            all.map(|(path, value)| Ok((path.clone(), self.setting(value)?))).collect::<Result<_>>()
        };
        let program = raw.program.as_ref().map(|name| self.program(name, raw)).transpose()?;
        if let (None, Some(words)) = (&program, raw.beside.first()) {
            let what = "'beside' needs a 'program' on the nodes before";
            return Err(self.error(Some(&words.span()), what));
        }
        if let (None, Some(_)) = (&raw.machine, raw.output.stretch()) {
            let what = "an 'output' of traffic needs a 'machine'";
            return Err(self.error(Some(&raw.name.span()), what));
        }
        let number = |value: &Spanned<Value>| self.value(value.get_ref(), &value.span());
        Ok(RunTemplate {
            name: self.template(&raw.name)?,
            machine: raw.machine.as_ref().map(|name| self.template(name)).transpose()?,
            settings: ByEffort { quick: settings(&raw.quick)?, full: settings(&raw.full)? },
            trial: raw.trial.clone(),
            program,
            cost: raw.cost.as_ref().map(number).transpose()?,
        })
    }

    fn program(&self, name: &Text, raw: &raw::Run) -> Result<Program> {
        let one = Expr { at: 0, node: Node::Number(1.0) };
        let arguments: Result<_> = raw.arguments.iter().map(|text| self.template(text)).collect();
        let nodes = raw.nodes.as_ref().map(|nodes| self.value(nodes.get_ref(), &nodes.span()));
        let beside: Result<_> = raw.beside.iter().map(|words| self.beside(words)).collect();
        let as_json = |value: &Value| serde_json::to_value(value).unwrap_or_default();
        Ok(Program {
            name: self.template(name)?,
            arguments: arguments?,
            nodes: nodes.unwrap_or(Ok(one))?,
            beside: beside?,
            progress: self.optional(raw.progress.as_ref())?,
            if_it_fails: raw.if_it_fails.as_ref().map(as_json),
            output: raw.output,
        })
    }

    /// A program and its arguments.
    fn beside(&self, words: &Spanned<Vec<Text>>) -> Result<Vec<Template>> {
        if words.get_ref().is_empty() {
            return Err(self.error(Some(&words.span()), "expected a program and its arguments"));
        }
        words.get_ref().iter().map(|word| self.template(word)).collect()
    }

    /// A setting of a machine: a text may have expressions in it.
    fn setting(&self, value: &Spanned<Value>) -> Result<Template> {
        let text = match value.get_ref() {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Template::parse(&text).map_err(|problem| self.wrong(&value.span(), &text, &problem))
    }

    fn each(&self, all: &[Text]) -> Result<Vec<(String, Expr)>> {
        let one = |text: &Text| self.variable(text, " in ");
        all.iter().map(one).collect()
    }

    /// `name in list`, or `name = value`.
    fn variable(&self, text: &Text, separator: &str) -> Result<(String, Expr)> {
        let expected = || {
            let what = format!("expected 'name{separator}value', found '{}'", text.get_ref());
            self.error(Some(&text.span()), what)
        };
        let (name, value) = text.get_ref().split_once(separator).ok_or_else(expected)?;
        let name = name.trim();
        if !matches!(parse(name), Ok(Expr { node: Node::Name(_), .. })) {
            return Err(expected());
        }
        let value = parse(value).map_err(|problem| self.wrong(&text.span(), value, &problem))?;
        Ok((name.to_owned(), value))
    }

    /// The checks of a claim, or of each of several that are alike.
    fn checks(
        &self,
        raw: &raw::Claim,
        part: Option<usize>,
        document: &Document,
    ) -> Result<Vec<Check>> {
        let id = self.template(&raw.id)?;
        let mut all = Vec::new();
        for bound in self.combinations(&raw.each, document)? {
            let scope = bound.iter().map(|(name, value)| (name.clone(), value.clone()));
            let id = super::constant_text(&id, &bound, document)
                .map_err(|what| self.error(Some(&raw.id.span()), what))?;
            let way = match &raw.untestable {
                Some(reason) => Way::Untestable(
                    super::constant_text(&self.template(reason)?, &bound, document)
                        .map_err(|what| self.error(Some(&reason.span()), what))?,
                ),
                None => {
                    Way::Measured(Box::new(self.measurement(raw, scope.collect(), document)?))
                }
            };
            all.push(Check { id, part, way, own: (raw.value, raw.relation) });
        }
        Ok(all)
    }

    /// Every combination of the values of these variables.
    fn combinations(&self, each: &[Text], document: &Document) -> Result<Vec<Vec<(String, Expr)>>> {
        let mut all = vec![vec![]];
        for text in each {
            let (name, list) = self.variable(text, " in ")?;
            let values = super::constant_list(&list, document)
                .map_err(|what| self.error(Some(&text.span()), what))?;
            let with = |bound: Vec<(String, Expr)>| {
                let name = name.clone();
                values.iter().map(move |value| {
                    let mut bound = bound.clone();
                    bound.push((name.clone(), value.clone()));
                    bound
                })
            };
            all = all.into_iter().flat_map(with).collect();
        }
        Ok(all)
    }

    fn measurement(
        &self,
        raw: &raw::Claim,
        mut with: Vec<(String, Expr)>,
        document: &Document,
    ) -> Result<Measurement> {
        let span = raw.id.span();
        let incomplete =
            |what: &str| self.error(Some(&span), format!("{}: {what}", raw.id.get_ref()));
        for text in &raw.with {
            with.push(self.variable(text, " = ")?);
        }
        let value = |value: &Spanned<Value>| self.value(value.get_ref(), &value.span());
        let quantity = match (&raw.measure, &raw.left, &raw.right) {
            (Some(measure), None, None) => Quantity::Value(value(measure)?),
            (None, Some(left), Some(right)) => Quantity::Sides(value(left)?, value(right)?),
            _ => return Err(incomplete("needs 'measure', or 'left' and 'right', or 'untestable'")),
        };
        let measurement = Measurement {
            class: raw.class.ok_or_else(|| incomplete("needs a 'class'"))?,
            kind: raw.kind,
            repeats: None,
            with,
            quantity,
            needs: raw.needs.clone(),
            unit: raw.unit.clone(),
            remark: self.optional(raw.remark.as_ref())?,
            reading: self.optional(raw.reading.as_ref())?,
            explanation: self.optional(raw.explanation.as_ref())?,
        };
        let names = Names::of(document);
        names.check_measurement(&measurement).map_err(|problem| incomplete(&problem.what))?;
        Ok(measurement)
    }

    fn sheet(&self, raw: raw::Sheet, part: usize) -> Result<Sheet> {
        let series = |raw: &raw::Series| {
            let points = self.variable(&raw.points, " in ")?;
            let at = Expr { at: 0, node: Node::Name(points.0.clone()) };
            Ok(Series {
                each: self.each(&raw.each)?,
                name: self.template(&raw.name)?,
                x: raw.x.as_ref().map_or(Ok(at), |x| self.expression(x))?,
                points,
                y: self.expression(&raw.y)?,
                claim: self.optional(raw.claim.as_ref())?,
                dashed: raw.dashed,
            })
        };
        let all: Result<_> = raw.series.iter().map(series).collect();
        Ok(Sheet {
            name: raw.name,
            part,
            title: raw.title,
            x: raw.x,
            y: raw.y,
            log_x: raw.log_x,
            needs: raw.needs,
            series: all?,
        })
    }

    fn row(&self, raw: raw::Row, part: usize) -> Result<Row> {
        Ok(Row {
            part,
            each: self.each(&raw.each)?,
            when: raw.when.as_ref().map(|when| self.expression(when)).transpose()?,
            name: self.template(&raw.name)?,
            value: self.expression(&raw.value)?,
            unit: raw.unit,
        })
    }

    /// Every claim has one experiment, and every experiment a claim.
    fn claims_match(&self, document: &Document) -> Result<()> {
        let ids: Vec<&str> = document.published.iter().map(claims::Claim::short_id).collect();
        let mut counts: BTreeMap<&str, usize> = ids.iter().map(|&id| (id, 0)).collect();
        for check in document.checks.iter().chain(&document.on_host) {
            let id = check.id.as_str();
            if !counts.contains_key(id) {
                let near = nearest(id, &ids);
                return Err(self.error(None, format!("the paper has no claim '{id}'{near}")));
            }
        }
        for check in &document.checks {
            *counts.entry(&check.id).or_default() += 1;
        }
        match counts.into_iter().find(|&(_, count)| count != 1) {
            None => Ok(()),
            Some((id, 0)) => Err(self.error(None, format!("the claim '{id}' has no experiment"))),
            Some((id, _)) => Err(self.error(None, format!("the claim '{id}' has two experiments"))),
        }
    }
}
