//! What expressions give, what is refused at compilation, and what at evaluation.

use serde_json::json;

use super::*;

fn of_object(object: &Value) -> Variables<'_> {
    Variables {
        object,
        element: None,
    }
}

fn compile(source: &str, returns: Returns) -> Result<Expression, String> {
    Expression::compile(source, Declared::Object, returns).map_err(|error| error.to_string())
}

#[test]
fn evaluates_on_what_it_names() {
    let object = json!({
        "spec": {"parallelism": 3, "template": {"big": "x"}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    });
    let (bool, int) = (Returns::Bool, Returns::Int);
    let cases = [
        ("object.spec.parallelism + 1", int, cel::Value::Int(4)),
        (
            "has(object.spec.completions)",
            bool,
            cel::Value::Bool(false),
        ),
        ("has(object.nothing)", bool, cel::Value::Bool(false)),
        (
            "object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')",
            bool,
            cel::Value::Bool(true),
        ),
        (
            "has(object.status) && size(object.status.conditions) == 1",
            bool,
            cel::Value::Bool(true),
        ),
    ];
    for (source, returns, expected) in cases {
        let expression = compile(source, returns).unwrap();
        let got = expression.evaluate(of_object(&object)).unwrap();
        assert_eq!(got, expected, "{source}");
    }
}

#[test]
fn indexes_are_counted_where_no_api_server_compiles_the_expression() {
    let of = |text: &str| {
        let object = json!({"status": {"failedIndexes": text}});
        let source = "indexes(object.status.failedIndexes) + 1";
        let expression = compile(source, Returns::OwnInt).unwrap();
        expression.evaluate(of_object(&object))
    };
    assert_eq!(of("0-3,7"), Ok(cel::Value::Int(6)));
    assert_eq!(of(""), Ok(cel::Value::Int(1)));
    assert_eq!(
        of("hunter2"),
        Err(EvaluationError::Failed(
            "Error executing function 'indexes': must be numbers and ranges in order, as in 0-3,7"
                .to_owned()
        ))
    );
    let undeclared = Err("undeclared function \"indexes\"".to_owned());
    assert_eq!(
        compile("indexes('1')", Returns::Int).map(|_| ()),
        undeclared
    );
}

#[test]
fn an_element_is_seen_with_its_key() {
    let object = json!({"spec": {"factor": 2, "roles": {"Worker": {"replicas": "3"}}}});
    let cases = [
        (
            "int(item.replicas) * object.spec.factor",
            Returns::Int,
            cel::Value::Int(6),
        ),
        (
            "key == 'Worker' && has(item.replicas)",
            Returns::Bool,
            cel::Value::Bool(true),
        ),
        ("size(item)", Returns::Int, cel::Value::Int(1)),
    ];
    let (item, key) = (&object["spec"]["roles"]["Worker"], json!("Worker"));
    for (source, returns, expected) in cases {
        let expression = Expression::compile(source, Declared::Element, returns).unwrap();
        let variables = Variables {
            object: &object,
            element: Some((item, &key)),
        };
        assert_eq!(
            expression.evaluate(variables).unwrap(),
            expected,
            "{source}"
        );
    }
}

#[test]
fn refuses_what_it_cannot_bound_or_know() {
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    let negations = format!("{}true", "!".repeat(1500));
    let conditionals = format!("{}1", "true ? 1 : ".repeat(150));
    let long = "x".repeat(3000);
    let cases = [
        ("object.spec.", "must be a CEL expression"),
        (
            "job.spec.x",
            "undeclared reference to \"job\" at 1:1: only \"object\" is declared",
        ),
        (
            "object.spec.a == 1 &&\n  item.b == 2",
            "undeclared reference to \"item\" at 2:3: only \"object\" is declared",
        ),
        (
            "size(object) == 1",
            "undeclared reference to \"object\" at 1:6: a field of \"object\" must be named",
        ),
        ("frobnicate(object)", "undeclared function \"frobnicate\""),
        (
            "indexes(object.status.failedIndexes) == 1",
            "undeclared function \"indexes\"",
        ),
        ("max(1, 2) == 2", "undeclared function \"max\""),
        (
            &deep,
            "must not be nested deeper than 40 brackets, operators and fields",
        ),
        (
            &negations,
            "must not be nested deeper than 40 brackets, operators and fields",
        ),
        (
            &conditionals,
            "must not be nested deeper than 40 brackets, operators and fields",
        ),
        (&long, "must not be longer than 2048 bytes"),
        (
            "object.a.all(x, x.b.all(y, y.c.all(z, z)))",
            "must not nest more than 2 of all, exists, map and filter",
        ),
        ("1 + 1 == 2 ? 'a' : 'b'", "must give a bool, not a string"),
        ("size(object.spec.x)", "must give a bool, not a int"),
        ("[true]", "must give a bool, not a list"),
    ];
    for (source, expected) in cases {
        let message = compile(source, Returns::Bool).unwrap_err();
        assert!(message.starts_with(expected), "{source}: {message}");
    }
}

#[test]
fn a_list_is_walked_as_far_as_its_cost_allows() {
    let object = json!({"spec": {"items": vec![1; 10_000]}});
    let cases = [
        ("object.spec.items.all(x, x > 0)", None),
        (
            "object.spec.items.all(x, object.spec.items.all(y, x == y))",
            Some(
                "it reads a list of 10000 elements and a text of 0 bytes and could take more than 250000 steps, which is all that an expression may take",
            ),
        ),
        (
            "object.spec.items.map(x, x + 1)[0] == 2",
            Some(
                "it reads a list of 10000 elements and a text of 0 bytes and could take more than 250000 steps, which is all that an expression may take",
            ),
        ),
    ];
    for (source, refusal) in cases {
        let expression = compile(source, Returns::Bool).unwrap();
        let got = expression.evaluate(of_object(&object));
        match refusal {
            None => assert_eq!(got, Ok(cel::Value::Bool(true)), "{source}"),
            Some(text) => assert_eq!(got.unwrap_err().to_string(), text, "{source}"),
        }
    }
}

#[test]
fn long_texts_cost_more() {
    let object = json!({"spec": {"items": vec!["x"; 1000], "text": "y".repeat(100 * 1024)}});
    let source = "object.spec.items.exists(x, object.spec.text.contains(x))";
    let expression = compile(source, Returns::Bool).unwrap();
    let refusal = expression
        .evaluate(of_object(&object))
        .unwrap_err()
        .to_string();
    assert!(
        refusal.starts_with("it reads a list of 1000 elements and a text of 102400 bytes"),
        "{refusal}"
    );
}

#[test]
fn what_is_too_large_is_not_converted() {
    let many = json!({"spec": {"items": vec![json!([1, 2, 3, 4, 5, 6, 7]); 10_000]}});
    let long = json!({"spec": {"items": "x".repeat(600 * 1024)}});
    let expression = compile("size(object.spec.items) == 1", Returns::Bool).unwrap();
    for (object, expected) in [
        (
            many,
            "it reads more than the 20000 values that an expression may read",
        ),
        (
            long,
            "it reads more than the 131072 bytes of text that an expression may read",
        ),
    ] {
        assert_eq!(
            expression
                .evaluate(of_object(&object))
                .unwrap_err()
                .to_string(),
            expected
        );
    }
}

#[test]
fn names_the_fields_that_it_reads() {
    let source = "has(item.replicas) ? item.replicas : object.spec.sizes.map(s, s.x)[0]";
    let expression = Expression::compile(source, Declared::Element, Returns::Int).unwrap();
    let named: Vec<String> = expression
        .references()
        .iter()
        .map(|r| format!("{}.{}", r.variable, r.fields.join(".")))
        .collect();
    assert_eq!(
        named,
        ["item.replicas", "item.replicas", "object.spec.sizes"]
    );
}

/// What is declared is there: a function that compiles must not fail on every object.
#[test]
fn every_declared_function_can_be_called() {
    let object = json!({"spec": {"text": "12", "list": [1, 2]}});
    let cases = [
        "size(object.spec.list) == 2",
        "object.spec.text.contains('1')",
        "object.spec.text.startsWith('1')",
        "object.spec.text.endsWith('2')",
        "object.spec.text.matches('^[0-9]+$')",
        "int(object.spec.text) == 12",
        "uint(object.spec.text) == 12u",
        "double(object.spec.text) == 12.0",
        "string(object.spec.list[0]) == '1'",
        "bool('true')",
        "type(object.spec.text) == type('')",
        "dyn(object.spec.text) == '12'",
    ];
    for source in cases {
        let function = FUNCTIONS
            .iter()
            .find(|name| source.contains(&format!("{name}(")));
        assert!(function.is_some(), "{source}");
        let got = compile(source, Returns::Bool)
            .unwrap()
            .evaluate(of_object(&object));
        assert_eq!(got, Ok(cel::Value::Bool(true)), "{source}");
    }
    assert_eq!(cases.len(), FUNCTIONS.len());
}

/// Without a bracket, operators nest as deep as the text is long: such a text may be refused, but
/// must not overflow the stack of a worker, which would end the process.
#[test]
fn long_chains_fit_on_the_stack() {
    let object = json!({"spec": {"a": 1}});
    let sum = |times| format!("1{} == {}", "+1".repeat(times), times + 1);
    let ands = |times| format!("true{}", "&&true".repeat(times));
    let indexes = |times| format!("object.spec.a{} == 1", "[0]".repeat(times));
    let fields = |times| format!("has(object{})", ".a".repeat(times));
    let brackets = |times: usize| format!("{}true{}", "(".repeat(times), ")".repeat(times));
    let negations = |times: usize| format!("{}true", "!".repeat(times));
    let choices = |times: usize| format!("{}true", "false ? true : ".repeat(times));
    for shape in [
        &sum as &dyn Fn(usize) -> String,
        &ands,
        &indexes,
        &fields,
        &brackets,
        &negations,
        &choices,
    ] {
        let mut is_refused = false;
        for times in (5..200).step_by(5) {
            let (source, object) = (shape(times), object.clone());
            let walk = move || match compile(&source, Returns::Bool) {
                Ok(expression) => {
                    let _ = expression.evaluate(of_object(&object));
                    true
                }
                Err(_) => false,
            };
            let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
            is_refused |= !thread.spawn(walk).unwrap().join().unwrap();
        }
        assert!(is_refused, "{}", shape(3));
    }
}
