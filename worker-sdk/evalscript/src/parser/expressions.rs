//! Expressions.

use super::{Parsed, Parser};
use crate::syntax::{Binary, Call, Element, Expression, Logical, Member, Operator, Pattern, Property, Unary};
use crate::token::{Kind, Source};
use std::rc::Rc;

/// An operator between two expressions, and how strongly it binds.
#[derive(Clone, Copy)]
struct InfixOperator {
    operator: Operator,
    precedence: u8,
}

const POWER: u8 = 12;

impl Parser<'_> {
    /// An expression that may be a sequence.
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        let first = self.assignment()?;
        if !self.is_punctuator(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take_punctuator(",") {
            all.push(self.assignment()?);
        }
        Ok(Expression::Sequence(all))
    }

    /// An expression without a comma.
    pub(super) fn assignment(&mut self) -> Parsed<Expression> {
        self.nested(|parser| match parser.arrow()? {
            Some(function) => Ok(function),
            None => parser.assigned(),
        })
    }

    fn assigned(&mut self) -> Parsed<Expression> {
        let target = self.conditional()?;
        let Kind::Punctuator(punctuator) = *self.peek() else { return Ok(target) };
        let update = punctuator.strip_suffix('=').and_then(operator);
        if punctuator != "=" && update.is_none() {
            return Ok(target);
        }
        self.assignable(&target)?;
        self.at += 1;
        let value = self.assignment()?;
        Ok(match update {
            Some(operator) if punctuator != "=" => Expression::Update(Box::new((target, operator, value))),
            Some(_) | None => Expression::Assign(Box::new((Pattern::Target(target), value))),
        })
    }

    fn assignable(&self, target: &Expression) -> Parsed<()> {
        if matches!(target, Expression::Name(_) | Expression::Member(_)) {
            return Ok(());
        }
        let is_pattern = matches!(target, Expression::Array(_) | Expression::Object(_));
        Err(if is_pattern { self.unsupported("an assignment to a pattern") } else { self.expected("`;`") })
    }

    fn conditional(&mut self) -> Parsed<Expression> {
        let condition = self.binary_expression(0)?;
        if !self.take_punctuator("?") {
            return Ok(condition);
        }
        let then = self.assignment()?;
        self.expect(":")?;
        let other = self.assignment()?;
        Ok(Expression::Conditional(Box::new((condition, then, other))))
    }

    /// Expressions joined by operators that bind at least as strongly as `least`.
    fn binary_expression(&mut self, least: u8) -> Parsed<Expression> {
        let mut left = self.unary()?;
        for length in 0.. {
            let Some(infix) = self.infix_operator()?.filter(|infix| infix.precedence >= least) else { break };
            self.bounded(length)?;
            self.at += 1;
            let tighter = if infix.precedence == POWER { POWER } else { infix.precedence + 1 };
            let right = self.nested(|parser| parser.binary_expression(tighter))?;
            let both = Box::new((left, right));
            left = match infix.operator {
                Operator::Binary(operator) => Expression::Binary(operator, both),
                Operator::Logical(operator) => Expression::Logical(operator, both),
            };
        }
        Ok(left)
    }

    fn infix_operator(&self) -> Parsed<Option<InfixOperator>> {
        let text = match self.peek() {
            Kind::Punctuator(punctuator) => *punctuator,
            Kind::Word(word) if **word == *"in" => "in",
            Kind::Word(word) if **word == *"instanceof" => return Err(self.unsupported("`instanceof`")),
            Kind::Word(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => {
                return Ok(None);
            }
        };
        if matches!(text, "&" | "|" | "^" | "<<" | ">>" | ">>>") {
            return Err(self.unsupported(&format!("`{text}`")));
        }
        Ok(operator(text).map(|operator| InfixOperator { operator, precedence: precedence(operator) }))
    }

    fn unary(&mut self) -> Parsed<Expression> {
        let operator = match self.peek() {
            Kind::Punctuator("!") => Unary::Not,
            Kind::Punctuator("-") => Unary::Minus,
            Kind::Punctuator("+") => Unary::Plus,
            Kind::Punctuator(punctuator @ ("++" | "--")) => return self.step_before(punctuator),
            Kind::Punctuator("~") => return Err(self.unsupported("`~`")),
            Kind::Word(word) => match &**word {
                "typeof" => Unary::Typeof,
                "void" => Unary::Void,
                "delete" | "await" | "yield" => return Err(self.unsupported(&format!("`{word}`"))),
                _ => return self.step_behind(),
            },
            Kind::Punctuator(_) | Kind::Number(_) | Kind::Text(_) | Kind::Template(..) | Kind::Regex | Kind::End => {
                return self.step_behind();
            }
        };
        self.at += 1;
        let operand = self.nested(Self::unary)?;
        Ok(Expression::Unary(operator, Box::new(operand)))
    }

    fn step_before(&mut self, punctuator: &'static str) -> Parsed<Expression> {
        self.at += 1;
        let target = self.nested(Self::unary)?;
        self.assignable(&target)?;
        Ok(Expression::Step(Box::new(target), step(punctuator), false))
    }

    fn step_behind(&mut self) -> Parsed<Expression> {
        let target = self.chain()?;
        let Kind::Punctuator(punctuator @ ("++" | "--")) = *self.peek() else { return Ok(target) };
        if self.token().first {
            return Ok(target);
        }
        self.assignable(&target)?;
        self.at += 1;
        Ok(Expression::Step(Box::new(target), step(punctuator), true))
    }

    /// An expression with its members and calls.
    fn chain(&mut self) -> Parsed<Expression> {
        let mut object = self.primary()?;
        for length in 0.. {
            self.bounded(length)?;
            let line = self.token().line;
            let optional = self.take_punctuator("?.");
            object = if self.is_punctuator("(") {
                let arguments = self.arguments()?;
                Expression::Call(Box::new(Call { callee: object, arguments, optional, line }))
            } else if self.take_punctuator("[") {
                let key = self.expression()?;
                self.expect("]")?;
                Expression::Member(Box::new(Member { object, key, optional }))
            } else if optional || self.take_punctuator(".") {
                let key = Expression::Text(self.name()?);
                Expression::Member(Box::new(Member { object, key, optional }))
            } else if matches!(self.peek(), Kind::Template(..)) {
                return Err(self.unsupported("a tagged template"));
            } else {
                break;
            };
        }
        Ok(object)
    }

    fn arguments(&mut self) -> Parsed<Vec<Element>> {
        self.expect("(")?;
        self.list(")")
    }

    /// The elements up to the bracket `close`.
    fn list(&mut self, close: &str) -> Parsed<Vec<Element>> {
        let mut elements = Vec::new();
        while !self.take_punctuator(close) {
            elements.push(match self.take_punctuator("...") {
                true => Element::Spread(self.assignment()?),
                false if self.is_punctuator(",") => Element::Empty,
                false => Element::One(self.assignment()?),
            });
            self.separator(close)?;
        }
        Ok(elements)
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let kind = self.peek().clone();
        match kind {
            Kind::Word(word) => return self.named(word),
            Kind::Punctuator(_) => return self.bracketed(),
            Kind::Regex => return Err(self.unsupported("a regular expression")),
            Kind::End => return Err(self.expected("an expression")),
            Kind::Number(_) | Kind::Text(_) | Kind::Template(..) => self.at += 1,
        }
        match kind {
            Kind::Number(number) => Ok(Expression::Number(number)),
            Kind::Text(text) => Ok(Expression::Text(text)),
            Kind::Template(texts, sources) => self.template(texts, &sources),
            Kind::Word(_) | Kind::Punctuator(_) | Kind::Regex | Kind::End => Err(self.expected("an expression")),
        }
    }

    fn template(&mut self, texts: Vec<Rc<str>>, sources: &[Source]) -> Parsed<Expression> {
        let mut values = Vec::new();
        for source in sources {
            let mut inside = Parser { source, at: 0, depth: self.depth };
            values.push(inside.expression()?);
            if !inside.is_at_end() {
                return Err(inside.expected("`}`"));
            }
        }
        Ok(Expression::Template(texts, values))
    }

    fn named(&mut self, word: Rc<str>) -> Parsed<Expression> {
        match &*word {
            "function" => return self.function_expression().map(Expression::Function),
            "new" => return self.new_object(),
            "this" | "class" | "super" | "async" | "import" => return Err(self.unsupported(&format!("`{word}`"))),
            _ => self.at += 1,
        }
        Ok(match &*word {
            "true" => Expression::Boolean(true),
            "false" => Expression::Boolean(false),
            "null" => Expression::Null,
            "undefined" => Expression::Undefined,
            _ => Expression::Name(word),
        })
    }

    fn new_object(&mut self) -> Parsed<Expression> {
        self.at += 1;
        let name = self.name()?;
        if self.is_punctuator(".") {
            return Err(self.unsupported("`new` with a member"));
        }
        let arguments = if self.is_punctuator("(") { self.arguments()? } else { Vec::new() };
        Ok(Expression::New(name, arguments))
    }

    fn bracketed(&mut self) -> Parsed<Expression> {
        if self.take_punctuator("(") {
            let expression = self.expression()?;
            self.expect(")")?;
            Ok(expression)
        } else if self.take_punctuator("[") {
            self.list("]").map(Expression::Array)
        } else if self.take_punctuator("{") {
            self.object()
        } else {
            Err(self.expected("an expression"))
        }
    }

    fn object(&mut self) -> Parsed<Expression> {
        let mut properties = Vec::new();
        while !self.take_punctuator("}") {
            properties.push(match self.take_punctuator("...") {
                true => Property::Spread(self.assignment()?),
                false => self.property()?,
            });
            self.separator("}")?;
        }
        Ok(Expression::Object(properties))
    }

    fn property(&mut self) -> Parsed<Property> {
        let kind = self.peek().clone();
        let key = self.property_key()?;
        if self.take_punctuator(":") {
            return Ok(Property::Pair(key, self.assignment()?));
        }
        let Kind::Word(name) = kind else { return Err(self.expected("`:`")) };
        if self.is_punctuator("(") {
            return Ok(Property::Pair(key, Expression::Function(self.method(name)?)));
        }
        if matches!(self.peek(), Kind::Word(_)) || self.is_punctuator("[") {
            return Err(self.unsupported(&format!("`{name}` before a property")));
        }
        Ok(Property::Pair(key, Expression::Name(name)))
    }

    fn property_key(&mut self) -> Parsed<Expression> {
        if self.take_punctuator("[") {
            let key = self.assignment()?;
            self.expect("]")?;
            return Ok(key);
        }
        let key = match self.peek().clone() {
            Kind::Word(text) | Kind::Text(text) => Expression::Text(text),
            Kind::Number(number) => Expression::Number(number),
            Kind::Template(..) | Kind::Regex | Kind::Punctuator(_) | Kind::End => {
                return Err(self.expected("a property"));
            }
        };
        self.at += 1;
        Ok(key)
    }
}

fn step(punctuator: &str) -> f64 {
    if punctuator == "++" { 1.0 } else { -1.0 }
}

fn operator(text: &str) -> Option<Operator> {
    Some(Operator::Binary(match text {
        "+" => Binary::Add,
        "-" => Binary::Subtract,
        "*" => Binary::Multiply,
        "/" => Binary::Divide,
        "%" => Binary::Remainder,
        "**" => Binary::Power,
        "==" => Binary::Equal,
        "!=" => Binary::Unequal,
        "===" => Binary::Same,
        "!==" => Binary::NotSame,
        "<" => Binary::Less,
        "<=" => Binary::LessOrEqual,
        ">" => Binary::Greater,
        ">=" => Binary::GreaterOrEqual,
        "in" => Binary::In,
        "&&" => return Some(Operator::Logical(Logical::And)),
        "||" => return Some(Operator::Logical(Logical::Or)),
        "??" => return Some(Operator::Logical(Logical::Else)),
        _ => return None,
    }))
}

fn precedence(operator: Operator) -> u8 {
    match operator {
        Operator::Logical(Logical::Or | Logical::Else) => 1,
        Operator::Logical(Logical::And) => 2,
        Operator::Binary(binary) => match binary {
            Binary::Equal | Binary::Unequal | Binary::Same | Binary::NotSame => 6,
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual | Binary::In => 7,
            Binary::Add | Binary::Subtract => 9,
            Binary::Multiply | Binary::Divide | Binary::Remainder => 10,
            Binary::Power => POWER,
        },
    }
}
