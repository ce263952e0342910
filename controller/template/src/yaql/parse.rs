//! Words → a tree, by precedence.

use super::token::{Token, at, tokens};
use super::value::Y;
use super::{DEPTH, check};
use crate::error::cut;

/// An expression that has been read.
#[derive(Debug)]
pub(crate) struct Expression(pub(super) Node);

#[derive(Debug)]
pub(super) enum Node {
    Literal(Y),
    /// The name after `$`.
    Variable(Box<str>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Member {
        of: Box<Node>,
        name: Box<str>,
        safe: bool,
    },
    Index {
        of: Box<Node>,
        by: Box<Node>,
        /// `[key, default]`
        default: Option<Box<Node>>,
    },
    Call {
        of: Option<Box<Node>>,
        name: Box<str>,
        safe: bool,
        arguments: Vec<Argument>,
    },
    Unary {
        operator: &'static str,
        of: Box<Node>,
    },
    Binary {
        operator: &'static str,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// `let(…) -> …`
    Into {
        left: Box<Node>,
        right: Box<Node>,
    },
}

#[derive(Debug)]
pub(super) struct Argument {
    /// The expression before `=>`.
    pub key: Option<Node>,
    pub value: Node,
}

/// Binary operators by how loosely they bind; `not` is between the second and the third.
const BINARY: [&[&str]; 6] = [
    &["or"],
    &["and"],
    &["<=", ">=", "!=", "<", ">", "=", "in"],
    &["+", "-"],
    &["*", "/", "mod"],
    &["=~", "!~"],
];
const NOT: usize = 2;

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Expression, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, next: 0, level: 0 };
    let (node, _) = parser.whole()?;
    match parser.peek() {
        None => match super::sequence::endless(&node, false) {
            None => Ok(Expression(node)),
            Some(name) => Err(super::sequence::no_end(name)),
        },
        Some(_) => Err(parser.unexpected("the end")),
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    level: usize,
}

/// A tree with its depth.
type Parsed = Result<(Node, usize), String>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(known)) if *known == sign);
        self.next += usize::from(found);
        found
    }

    fn want(&mut self, sign: &str) -> Result<(), String> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(&format!("'{sign}'"))) }
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.tokens.get(self.next) {
            None => format!("yaql: want {wanted}, got the end"),
            Some((token, column)) => {
                let got = match token {
                    Token::Name(name) => format!("'{}'", cut(name)),
                    Token::Variable(name) => format!("'${}'", cut(name)),
                    Token::Text(_) => "text".into(),
                    Token::Number(number) => number.to_string(),
                    Token::Sign(sign) => format!("'{sign}'"),
                };
                at(*column, &format!("want {wanted}, got {got}"))
            }
        }
    }

    fn bounded(&self, depth: usize) -> Result<usize, String> {
        if depth > DEPTH { Err(format!("yaql: more than {DEPTH} levels deep")) } else { Ok(depth) }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.level += 1;
        self.bounded(self.level)?;
        let read = read(self);
        self.level -= 1;
        read
    }

    /// A whole expression.
    fn whole(&mut self) -> Parsed {
        self.nested(|parser| {
            let (left, depth) = parser.binary(0)?;
            if !parser.take_sign("->") {
                return Ok((left, depth));
            }
            let (right, other) = parser.whole()?;
            let depth = parser.bounded(1 + depth.max(other))?;
            Ok((Node::Into { left: Box::new(left), right: Box::new(right) }, depth))
        })
    }

    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = BINARY.get(level) else { return self.unary() };
        if level == NOT && matches!(self.peek(), Some(Token::Name(name)) if &**name == "not") {
            self.next += 1;
            return self.nested(|parser| {
                let (of, depth) = parser.binary(level)?;
                Ok((Node::Unary { operator: "not", of: Box::new(of) }, parser.bounded(depth + 1)?))
            });
        }
        let (mut left, mut depth) = self.binary(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            self.next += 1;
            let (right, other) = self.binary(level + 1)?;
            depth = self.bounded(1 + depth.max(other))?;
            left = Node::Binary { operator, left: Box::new(left), right: Box::new(right) };
        }
        Ok((left, depth))
    }

    fn operator(&self, operators: &[&'static str]) -> Option<&'static str> {
        let found = match self.peek()? {
            Token::Sign(sign) => *sign,
            Token::Name(name) => &**name,
            Token::Variable(_) | Token::Text(_) | Token::Number(_) => return None,
        };
        operators.iter().copied().find(|operator| *operator == found)
    }

    fn unary(&mut self) -> Parsed {
        for operator in ["-", "+"] {
            if self.take_sign(operator) {
                return self.nested(|parser| {
                    let (of, depth) = parser.unary()?;
                    Ok((Node::Unary { operator, of: Box::new(of) }, parser.bounded(depth + 1)?))
                });
            }
        }
        self.postfix()
    }

    fn postfix(&mut self) -> Parsed {
        let (mut node, mut depth) = self.primary()?;
        loop {
            let safe = match self.peek() {
                Some(Token::Sign(".")) => false,
                Some(Token::Sign("?.")) => true,
                Some(Token::Sign("[")) => {
                    self.next += 1;
                    let (by, other) = self.whole()?;
                    depth = depth.max(other);
                    let mut default = None;
                    if self.take_sign(",") {
                        let (node, other) = self.whole()?;
                        (default, depth) = (Some(Box::new(node)), depth.max(other));
                    }
                    self.want("]")?;
                    depth = self.bounded(1 + depth)?;
                    node = Node::Index { of: Box::new(node), by: Box::new(by), default };
                    continue;
                }
                _ => return Ok((node, depth)),
            };
            self.next += 1;
            let Some(Token::Name(name)) = self.peek() else { return Err(self.unexpected("a name")) };
            let name = name.clone();
            self.next += 1;
            let of = Box::new(node);
            (node, depth) = if self.take_sign("(") {
                let (call, other) = self.call(Some(of), name, safe)?;
                (call, self.bounded(1 + depth.max(other))?)
            } else {
                (Node::Member { of, name, safe }, self.bounded(1 + depth)?)
            };
        }
    }

    fn primary(&mut self) -> Parsed {
        let Some((token, _)) = self.tokens.get(self.next).cloned() else {
            return Err(self.unexpected("a value"));
        };
        self.next += 1;
        match token {
            Token::Variable(name) => Ok((Node::Variable(name), 1)),
            Token::Text(text) => Ok((Node::Literal(Y::text(&text)), 1)),
            Token::Number(number) => Ok((Node::Literal(Y::from_number(&number)), 1)),
            Token::Name(name) if self.take_sign("(") => self.call(None, name, false),
            Token::Name(name) => {
                let literal = match &*name {
                    "true" => Y::Bool(true),
                    "false" => Y::Bool(false),
                    "null" => Y::Null,
                    // A word is a text: `dict(name => 1)`.
                    _ => Y::text(&name),
                };
                Ok((Node::Literal(literal), 1))
            }
            Token::Sign("(") => {
                let inner = self.whole()?;
                self.want(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                let (items, depth) = self.arguments("]")?;
                let items = items.into_iter().map(|item| item.value).collect();
                Ok((Node::List(items), self.bounded(depth + 1)?))
            }
            Token::Sign("{") => {
                let (items, depth) = self.arguments("}")?;
                let pair = |item: Argument| item.key.map(|key| (key, item.value));
                match items.into_iter().map(pair).collect() {
                    Some(entries) => Ok((Node::Map(entries), self.bounded(depth + 1)?)),
                    None => Err("yaql: a map is written {key => value}".into()),
                }
            }
            Token::Sign(_) => {
                self.next -= 1;
                Err(self.unexpected("a value"))
            }
        }
    }

    fn call(&mut self, of: Option<Box<Node>>, name: Box<str>, safe: bool) -> Parsed {
        let column = self.tokens.get(self.next.saturating_sub(2)).map_or(1, |(_, column)| *column);
        check(&name).map_err(|message| at(column, &message))?;
        let (arguments, depth) = self.arguments(")")?;
        // A pattern that is not valid is wrong whatever the data are.
        if let ("regex", None, [Argument { key: None, value: Node::Literal(text @ Y::Text(_)) }, ..]) =
            (&*name, &of, arguments.as_slice())
        {
            super::regex::pattern(text)
                .map_err(|message| at(column, message.trim_start_matches("yaql: ")))?;
        }
        Ok((Node::Call { of, name, safe, arguments }, self.bounded(depth + 1)?))
    }

    /// Parses the arguments between brackets, up to the closing one.
    fn arguments(&mut self, end: &str) -> Result<(Vec<Argument>, usize), String> {
        let mut found = Vec::new();
        let mut depth = 0;
        if self.take_sign(end) {
            return Ok((found, depth));
        }
        loop {
            let (first, one) = self.whole()?;
            depth = depth.max(one);
            if self.take_sign("=>") {
                let (value, other) = self.whole()?;
                depth = depth.max(other);
                found.push(Argument { key: Some(first), value });
            } else {
                found.push(Argument { key: None, value: first });
            }
            if self.take_sign(end) {
                return Ok((found, depth));
            }
            self.want(",")?;
        }
    }
}
