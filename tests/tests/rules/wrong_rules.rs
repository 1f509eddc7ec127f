//! Wrong rules are refused with place and reason, whichever way they come, and change nothing else.

use crate::prelude::*;
use rampmeter_tests::rules::{apply, put_by_hand};

/// A configuration whose limits do not count as soon as there are rules.
const CONFIGURATION: &str = r#"
[[resource]]
name = "hub"
start = "full"
[[resource.limit]]
name = "none"
capacity = 1
period = "400h"

[[resource]]
name = "other"
[[resource.limit]]
name = "none"
capacity = 1
period = "400h"
"#;

/// Valid rules; their lines count from 1.
const VALID: &str = r#"[[resource]]
name = "hub"

[[resource.limit]]
name = "few"
unit = "requests"
algorithm = "token-bucket"
capacity = 1000
period = "400h"
margin = 1
learn = true
floor = 0.2

[[resource.limit]]
name = "each"
capacity = 500
refill_interval = "2h"
key = ["client"]
match = { route = "/a*", method = ["PUT", "PATCH"] }
group = "clients"

[[resource.limit]]
name = "leaky"
algorithm = "leaky-bucket"
capacity = 350
drain_velocity = 0.1
shadow = true

[[resource]]
name = "other"

[[resource.limit]]
name = "rest"
capacity = 7
period = "PT1M"
"#;

/// The original text, its replacement (`<65>` means 65 letters), and the line, column and reason in
/// the refusal.
#[rustfmt::skip]
const WRONG: &[(&str, &str, &str)] = &[
    // instead of, this, line:column: reason
    ("name = \"hub\"", "name = \"\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"a.b\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"a b\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"ä\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"a/b\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"<65>\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = 5", "2:8: invalid type: integer `5`, expected a string"),
    ("name = \"hub\"", "name = true", "2:8: invalid type: boolean `true`, expected a string"),
    ("name = \"hub\"", "name = [\"hub\"]", "2:8: invalid type: sequence, expected a string"),
    ("name = \"hub\"", "name = \"hub\\n\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"a*\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"", "name = \"a>\"", "2:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"hub\"\n", "", "1:1: missing field `name`"),
    ("name = \"hub\"", "name = \"other\"", "30:8: there are two resources `other`"),
    ("name = \"hub\"", "nam = \"hub\"", "2:1: unknown field `nam`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"", "name = \"hub\"\nname = \"hub\"", "3:1: duplicate key"),
    ("name = \"few\"", "name = \"\"", "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"few\"", "name = \"very few\"", "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"few\"", "name = \"a.b\"", "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"few\"", "name = \"<65>\"", "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"few\"", "name = 1", "5:8: invalid type: integer `1`, expected a string"),
    ("name = \"few\"", "name = { a = 1 }", "5:8: invalid type: map, expected a string"),
    ("name = \"few\"", "name = \"each\"", "15:8: there are two limits `each`"),
    ("name = \"few\"", "name = \"leaky\"", "23:8: there are two limits `leaky`"),
    ("name = \"few\"", "name = \"few:\"", "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"few\"", "name = \"$few\"", "5:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("name = \"few\"\n", "", "4:1: missing field `name`"),
    ("name = \"few\"", "name = \"few\"\nNAME = \"few\"", "6:1: unknown field `NAME`, expected one of `name`, `unit`"),
    ("unit = \"requests\"", "unit = \"\"", "6:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("unit = \"requests\"", "unit = \"requests/s\"", "6:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("unit = \"requests\"", "unit = \"processing units\"", "6:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("unit = \"requests\"", "unit = 7", "6:8: invalid type: integer `7`, expected a string"),
    ("unit = \"requests\"", "unit = []", "6:8: invalid type: sequence, expected a string"),
    ("unit = \"requests\"", "unit = \"<65>\"", "6:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("unit = \"requests\"", "unit = \"é\"", "6:8: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("unit = \"requests\"", "unit = 1.5", "6:8: invalid type: floating point `1.5`, expected a string"),
    ("unit = \"requests\"", "unit = { name = \"requests\" }", "6:8: invalid type: map, expected a string"),
    ("unit = \"requests\"", "units = \"requests\"", "6:1: unknown field `units`, expected one of `name`, `unit`"),
    ("algorithm = \"token-bucket\"", "algorithm = \"bucket\"", "7:13: algorithm `bucket` is not known"),
    ("algorithm = \"token-bucket\"", "algorithm = \"Token-Bucket\"", "7:13: algorithm `Token-Bucket` is not known"),
    ("algorithm = \"token-bucket\"", "algorithm = \"token_bucket\"", "7:13: algorithm `token_bucket` is not known"),
    ("algorithm = \"token-bucket\"", "algorithm = \"\"", "7:13: algorithm `` is not known"),
    ("algorithm = \"token-bucket\"", "algorithm = 1", "7:13: invalid type: integer `1`, expected a string"),
    ("algorithm = \"token-bucket\"", "algorithm = true", "7:13: invalid type: boolean `true`, expected a string"),
    ("algorithm = \"token-bucket\"", "algorithm = [\"token-bucket\"]", "7:13: invalid type: sequence, expected a string"),
    ("algorithm = \"token-bucket\"", "algorithm = \" token-bucket\"", "7:13: algorithm ` token-bucket` is not known"),
    ("algorithm = \"token-bucket\"", "algoritm = \"token-bucket\"", "7:1: unknown field `algoritm`, expected one of `name`, `unit`"),
    ("capacity = 1000", "capacity = 0", "8:12: a capacity is above 0"),
    ("capacity = 1000", "capacity = -1", "8:12: an amount is a number from 0 to 1e9, not -1e0"),
    ("capacity = 1000", "capacity = -0.5", "8:12: an amount is a number from 0 to 1e9, not -5e-1"),
    ("capacity = 1000", "capacity = 1e10", "8:12: an amount is a number from 0 to 1e9, not 1e10"),
    ("capacity = 1000", "capacity = 1e300", "8:12: an amount is a number from 0 to 1e9, not 1e300"),
    ("capacity = 1000", "capacity = nan", "8:12: an amount is a number from 0 to 1e9, not NaN"),
    ("capacity = 1000", "capacity = inf", "8:12: an amount is a number from 0 to 1e9, not inf"),
    ("capacity = 1000", "capacity = -inf", "8:12: an amount is a number from 0 to 1e9, not -inf"),
    ("capacity = 1000", "capacity = 0.0000001", "8:12: an amount has at most 6 decimals, not 0.0000001; round it up"),
    ("capacity = 1000", "capacity = \"1000\"", "8:12: invalid type: string \"1000\", expected a number"),
    ("capacity = 1000", "capacity = true", "8:12: invalid type: boolean `true`, expected a number"),
    ("capacity = 1000", "capacity = []", "8:12: invalid type: sequence, expected a number"),
    ("capacity = 1000", "capacity = 1_000_000_001", "8:12: an amount is a number from 0 to 1e9, not 1.000000001e9"),
    ("capacity = 1000", "capacity = { tokens = 5 }", "8:12: invalid type: map, expected a number"),
    ("capacity = 1000", "capacity = 0.12345678", "8:12: an amount has at most 6 decimals, not 0.12345678; round it up"),
    ("capacity = 1000", "capacity = +", "8:12: string values must be quoted, expected literal string"),
    ("capacity = 1000", "capacity = 0x", "8:12: integer number overflowed"),
    ("capacity = 1000", "capacity = 1.", "8:14: invalid fraction, expected digits"),
    ("capacity = 1000", "capacity = 1979-05-27", "8:12: invalid type: map, expected a number"),
    ("capacity = 1000\n", "", "4:1: missing field `capacity`"),
    ("capacity = 1000", "capcity = 1000", "8:1: unknown field `capcity`, expected one of `name`, `unit`"),
    ("capacity = 1000", "capacity = 1000\ncapacity = 1000", "9:1: duplicate key"),
    ("capacity = 1000", "capacity = 1000\nlimit = 1000", "4:1: duplicate field `capacity`"),
    ("period = \"400h\"", "period = \"\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"400\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"P1M\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"P1Y\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"soon\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"-400h\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\", and is neither negative nor above 584 years"),
    ("period = \"400h\"", "period = \"PT0S\"", "9:10: a period is above 0 and at most 366 days"),
    ("period = \"400h\"", "period = \"0s\"", "9:10: a period is above 0 and at most 366 days"),
    ("period = \"400h\"", "period = \"10000h\"", "9:10: a period is above 0 and at most 366 days"),
    ("period = \"400h\"", "period = 400", "9:10: a duration has a unit, such as \"400s\" or \"400ms\"; 400 has none"),
    ("period = \"400h\"", "period = \"400 parsecs\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = true", "9:10: invalid type: boolean `true`, expected a duration such as \"60s\" or \"PT1M\""),
    ("period = \"400h\"", "period = [\"400h\"]", "9:10: invalid type: sequence, expected a duration such as \"60s\" or \"PT1M\""),
    ("period = \"400h\"", "period = \"PT\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"1h 1h\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"367d\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = \"1e3h\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("period = \"400h\"", "period = 24:00:00", "9:10: invalid time, expected hour between 00 and 23"),
    ("period = \"400h\"", "period = \"9999999999999h\"", "9:10: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\", and is neither negative nor above 584 years"),
    ("period = \"400h\"\n", "", "8:12: the limit needs a `period` or a `refill_interval`"),
    ("period = \"400h\"", "period = \"400h\"\nrefill_interval = \"1s\"", "10:19: give `period` or `refill_interval`, not both"),
    ("period = \"400h\"", "period = \"400h\"\ndrain_velocity = 1", "10:18: `drain_velocity` is for `algorithm = \"leaky-bucket\"`, in place of a `period` or a `refill_interval`"),
    ("period = \"400h\"", "period = \"400h\"\nperiods = \"400h\"", "10:1: unknown field `periods`, expected one of `name`, `unit`"),
    ("period = \"400h\"", "Period = \"400h\"", "9:1: unknown field `Period`, expected one of `name`, `unit`"),
    ("margin = 1\n", "margin = 1000\n", "10:10: a margin is below the capacity of 1000"),
    ("margin = 1\n", "margin = 1001\n", "10:10: a margin is below the capacity of 1000"),
    ("margin = 1\n", "margin = -1\n", "10:10: an amount is a number from 0 to 1e9, not -1e0"),
    ("margin = 1\n", "margin = \"some\"\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margin = \"1\"\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margin = \"\"\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margin = []\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margin = true\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margin = nan\n", "10:10: an amount is a number from 0 to 1e9, not NaN"),
    ("margin = 1\n", "margin = 1e10\n", "10:10: an amount is a number from 0 to 1e9, not 1e10"),
    ("margin = 1\n", "margin = 0.0000001\n", "10:10: an amount has at most 6 decimals, not 0.0000001; round it up"),
    ("margin = 1\n", "margin = {}\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margin = \"Auto\"\n", "10:10: a margin is \"auto\" or a number of tokens"),
    ("margin = 1\n", "margn = 1\n", "10:1: unknown field `margn`, expected one of `name`, `unit`"),
    ("learn = true", "learn = 1", "11:9: invalid type: integer `1`, expected true or false"),
    ("learn = true", "learn = \"yes\"", "11:9: invalid type: string \"yes\", expected true or false"),
    ("learn = true", "learn = \"true\"", "11:9: invalid type: string \"true\", expected true or false"),
    ("learn = true", "learn = []", "11:9: invalid type: sequence, expected true or false"),
    ("learn = true", "learn = false", "12:9: `floor` has no meaning beside `learn = false`; leave one out"),
    ("learn = true", "lern = true", "11:1: unknown field `lern`, expected one of `name`, `unit`"),
    ("floor = 0.2", "floor = 0", "12:9: a floor is a share of the rate from 0.01 to 1, not 0"),
    ("floor = 0.2", "floor = 0.001", "12:9: a floor is a share of the rate from 0.01 to 1, not 0.001"),
    ("floor = 0.2", "floor = 1.1", "12:9: a floor is a share of the rate from 0.01 to 1, not 1.1"),
    ("floor = 0.2", "floor = -0.2", "12:9: a floor is a share of the rate from 0.01 to 1, not -0.2"),
    ("floor = 0.2", "floor = nan", "12:9: a floor is a share of the rate from 0.01 to 1, not NaN"),
    ("floor = 0.2", "floor = inf", "12:9: a floor is a share of the rate from 0.01 to 1, not inf"),
    ("floor = 0.2", "floor = \"0.2\"", "12:9: invalid type: string \"0.2\", expected a number"),
    ("floor = 0.2", "floor = true", "12:9: invalid type: boolean `true`, expected a number"),
    ("floor = 0.2", "floor = [0.2]", "12:9: invalid type: sequence, expected a number"),
    ("floor = 0.2", "flor = 0.2", "12:1: unknown field `flor`, expected one of `name`, `unit`"),
    ("refill_interval = \"2h\"", "refill_interval = \"0s\"", "17:19: a period is above 0 and at most 366 days"),
    ("refill_interval = \"2h\"", "refill_interval = \"often\"", "17:19: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("refill_interval = \"2h\"", "refill_interval = 60", "17:19: a duration has a unit, such as \"60s\" or \"60ms\"; 60 has none"),
    ("refill_interval = \"2h\"", "refill_interval = \"-2h\"", "17:19: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\", and is neither negative nor above 584 years"),
    ("refill_interval = \"2h\"", "refill_interval = \"\"", "17:19: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("refill_interval = \"2h\"", "refill_interval = \"P1M\"", "17:19: a duration is written as ISO 8601 (\"PT1M\") or like \"60s\""),
    ("refill_interval = \"2h\"", "refill_interval = \"100h\"", "17:19: a period is above 0 and at most 366 days"),
    ("refill_interval = \"2h\"", "refill_interval = []", "17:19: invalid type: sequence, expected a duration such as \"60s\" or \"PT1M\""),
    ("refill_interval = \"2h\"\n", "", "16:12: the limit needs a `period` or a `refill_interval`"),
    ("refill_interval = \"2h\"", "refill_intervall = \"2h\"", "17:1: unknown field `refill_intervall`, expected one of `name`, `unit`"),
    ("refill_interval = \"2h\"", "refill_interval = \"2h\"\nperiod = \"1s\"", "17:19: give `period` or `refill_interval`, not both"),
    ("key = [\"client\"]", "key = \"client\"", "18:7: invalid type: string \"client\", expected a list"),
    ("key = [\"client\"]", "key = [\"\"]", "18:8: a label's name has 1 to 64 characters, not 0"),
    ("key = [\"client\"]", "key = [\"client\", \"client\"]", "18:8: a label is named twice"),
    ("key = [\"client\"]", "key = [\"a\", \"b\", \"c\", \"d\", \"e\"]", "18:8: a key is of at most 4 labels, not 5"),
    ("key = [\"client\"]", "key = [5]", "18:8: invalid type: integer `5`, expected a string"),
    ("key = [\"client\"]", "key = [\"<65>\"]", "18:8: a label's name has 1 to 64 characters, not 65"),
    ("key = [\"client\"]", "key = { client = true }", "18:7: invalid type: map, expected a list"),
    ("key = [\"client\"]", "key = [[\"client\"]]", "18:8: invalid type: sequence, expected a string"),
    ("key = [\"client\"]", "key = [\"client\", \"a\", \"client\"]", "18:8: a label is named twice"),
    ("key = [\"client\"]", "key = true", "18:7: invalid type: boolean `true`, expected a list"),
    ("key = [\"client\"]", "keys = [\"client\"]", "18:1: unknown field `keys`, expected one of `name`, `unit`"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = \"/a*\"", "19:9: invalid type: string \"/a*\", expected a map"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = []", "19:9: invalid type: sequence, expected a map"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = 5 }", "19:19: a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^(\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^[\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^a{2,1}\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = [] }", "19:19: an empty list matches nothing; name the values, or leave the label out"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = [1] }", "19:19: a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = { prefix = \"/a\" } }", "19:19: a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { \"\" = \"x\" }", "19:11: a label's name has 1 to 64 characters, not 0"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { <65> = \"x\" }", "19:11: a label's name has 1 to 64 characters, not 65"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"/a*\", route = \"/b*\" }", "19:26: duplicate key"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = true }", "19:19: a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = [\"PUT\", 5] }", "19:19: a label is matched with a value, a \"prefix*\", a \"^regular expression\" or a list of values"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^(?P<a\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^\\\\q\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^a(?=b)\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^\\\\1\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = \"^(?i\" }", "19:11: not a regular expression: regex parse error"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "match = { route = [\"a\"] method = \"b\" }", "19:25: missing comma between key-value pairs, expected `,`"),
    ("match = { route = \"/a*\", method = [\"PUT\", \"PATCH\"] }", "matches = { route = \"/a*\" }", "19:1: unknown field `matches`, expected one of `name`, `unit`"),
    ("group = \"clients\"", "group = \"\"", "20:9: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("group = \"clients\"", "group = \"a b\"", "20:9: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("group = \"clients\"", "group = 5", "20:9: invalid type: integer `5`, expected a string"),
    ("group = \"clients\"", "group = [\"clients\"]", "20:9: invalid type: sequence, expected a string"),
    ("group = \"clients\"", "group = \"<65>\"", "20:9: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("group = \"clients\"", "group = \"g.h\"", "20:9: a name is 1 to 64 characters of [A-Za-z0-9_-]"),
    ("group = \"clients\"", "groups = \"clients\"", "20:1: unknown field `groups`, expected one of `name`, `unit`"),
    ("drain_velocity = 0.1", "drain_velocity = 0", "26:18: a `drain_velocity` is above 0, in units per second"),
    ("drain_velocity = 0.1", "drain_velocity = -1", "26:18: an amount is a number from 0 to 1e9, not -1e0"),
    ("drain_velocity = 0.1", "drain_velocity = nan", "26:18: an amount is a number from 0 to 1e9, not NaN"),
    ("drain_velocity = 0.1", "drain_velocity = inf", "26:18: an amount is a number from 0 to 1e9, not inf"),
    ("drain_velocity = 0.1", "drain_velocity = \"0.1\"", "26:18: invalid type: string \"0.1\", expected a number"),
    ("drain_velocity = 0.1", "drain_velocity = 1e10", "26:18: an amount is a number from 0 to 1e9, not 1e10"),
    ("drain_velocity = 0.1", "drain_velocity = true", "26:18: invalid type: boolean `true`, expected a number"),
    ("drain_velocity = 0.1", "drain_velocity = 0.0000001", "26:18: an amount has at most 6 decimals, not 0.0000001; round it up"),
    ("drain_velocity = 0.1", "drain_velocity = []", "26:18: invalid type: sequence, expected a number"),
    ("drain_velocity = 0.1", "drain_velocity = 1e-7", "26:18: an amount has at most 6 decimals, not 0.0000001; round it up"),
    ("drain_velocity = 0.1", "drain_velocity = 0.00000000001", "26:18: a `drain_velocity` is above 0, in units per second"),
    ("algorithm = \"leaky-bucket\"\n", "", "25:18: `drain_velocity` is for `algorithm = \"leaky-bucket\"`, in place of a `period` or a `refill_interval`"),
    ("drain_velocity = 0.1", "drain_velocity = 0.1\nperiod = \"1s\"", "26:18: `drain_velocity` is for `algorithm = \"leaky-bucket\"`, in place of a `period` or a `refill_interval`"),
    ("drain_velocity = 0.1", "drain_velocity = 0.1\nrefill_interval = \"1s\"", "26:18: `drain_velocity` is for `algorithm = \"leaky-bucket\"`, in place of a `period` or a `refill_interval`"),
    ("drain_velocity = 0.1\n", "", "25:12: the limit needs a `period` or a `refill_interval`"),
    ("drain_velocity = 0.1", "drain_velocity = 0.000001\ncapacity = 350", "27:1: duplicate key"),
    ("capacity = 350", "capacity = 1e9", "26:18: a period is above 0 and at most 366 days"),
    ("shadow = true", "shadow = 1", "27:10: invalid type: integer `1`, expected true or false"),
    ("shadow = true", "shadow = \"yes\"", "27:10: invalid type: string \"yes\", expected true or false"),
    ("shadow = true", "shadow = \"true\"", "27:10: invalid type: string \"true\", expected true or false"),
    ("shadow = true", "shadow = []", "27:10: invalid type: sequence, expected true or false"),
    ("shadow = true", "shadow = {}", "27:10: invalid type: map, expected true or false"),
    ("shadow = true", "shadow = TRUE", "27:10: invalid boolean, expected `true`"),
    ("shadow = true", "shadows = true", "27:1: unknown field `shadows`, expected one of `name`, `unit`"),
    ("name = \"hub\"\n", "name = \"hub\"\nstart = \"full\"\n", "3:1: unknown field `start`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nunmatched = \"allow\"\n", "3:1: unknown field `unmatched`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nclasses = []\n", "3:1: unknown field `classes`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\ndefault_class = \"bulk\"\n", "3:1: unknown field `default_class`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nhorizon = \"50ms\"\n", "3:1: unknown field `horizon`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\ndialect = \"ietf\"\n", "3:1: unknown field `dialect`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nfair_share = \"client\"\n", "3:1: unknown field `fair_share`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nweights = { a = 3 }\n", "3:1: unknown field `weights`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nreservation = \"300ms\"\n", "3:1: unknown field `reservation`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nvalidity = \"5s\"\n", "3:1: unknown field `validity`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\non_kv_loss = \"hold\"\n", "3:1: unknown field `on_kv_loss`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nmax_waiting = 5\n", "3:1: unknown field `max_waiting`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nmax_keys = 5\n", "3:1: unknown field `max_keys`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nlearn_costs = [\"route\"]\n", "3:1: unknown field `learn_costs`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nprovider = { kind = \"sentinel-hub\" }\n", "3:1: unknown field `provider`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nmax_permits = 5\n", "3:1: unknown field `max_permits`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nride_for = \"5s\"\n", "3:1: unknown field `ride_for`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("name = \"hub\"\n", "name = \"hub\"\nretry_after_unit = \"ms\"\n", "3:1: unknown field `retry_after_unit`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("[[resource]]\nname = \"hub\"\n", "[nats]\nurl = \"nats://localhost\"\n[[resource]]\nname = \"hub\"\n", "1:2: unknown field `nats`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "[http]\nlisten = \"127.0.0.1:0\"\n[[resource]]\nname = \"hub\"\n", "1:2: unknown field `http`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "[resources]\n[[resource]]\nname = \"hub\"\n", "1:2: unknown field `resources`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "version = 1\n[[resource]]\nname = \"hub\"\n", "1:1: unknown field `version`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "[resource]\nname = \"hub\"\n[[resource]]\nname = \"hub\"\n", "3:3: duplicate key"),
    ("[[resource]]\nname = \"hub\"\n", "resource = 5\n[[resource]]\nname = \"hub\"\n", "2:3: duplicate key"),
    ("[[resource]]\nname = \"hub\"\n", "resource = []\n[[resource]]\nname = \"hub\"\n", "2:3: duplicate key"),
    ("[[resource]]\nname = \"hub\"\n", "[[resources]]\nname = \"hub\"\n[[resource]]\nname = \"hub\"\n", "1:3: unknown field `resources`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "[[limit]]\nname = \"few\"\n[[resource]]\nname = \"hub\"\n", "1:3: unknown field `limit`, expected `resource`"),
    ("[[resource]]\nname = \"hub\"\n", "{}\n[[resource]]\nname = \"hub\"\n", "1:1: invalid key-value pair, expected key"),
    ("[[resource]]\nname = \"hub\"\n", "\"hub\"\n[[resource]]\nname = \"hub\"\n", "1:6: key with no value, expected `=`"),
    ("[[resource]]\nname = \"hub\"\n", "hub\n[[resource]]\nname = \"hub\"\n", "1:4: key with no value, expected `=`"),
    ("[[resource]]\nname = \"hub\"\n", "[[resource]\n[[resource]]\nname = \"hub\"\n", "1:12: unclosed array table, expected `]`"),
    ("[[resource]]\nname = \"hub\"\n", "[[resource]]\n[[resource]]\nname = \"hub\"\n", "1:1: missing field `name`"),
    ("[[resource]]\nname = \"hub\"\n", "= 5\n[[resource]]\nname = \"hub\"\n", "1:1: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`"),
    ("[[resource]]\nname = \"hub\"\n", "\0\n[[resource]]\nname = \"hub\"\n", "1:2: key with no value, expected `=`"),
    ("[[resource]]\nname = \"hub\"\n", "\u{feff}x\n[[resource]]\nname = \"hub\"\n", "1:3: key with no value, expected `=`"),
    ("[[resource.limit]]\nname = \"rest\"\n", "[[resource.limits]]\nname = \"rest\"\n", "32:12: unknown field `limits`, expected one of `name`, `applied`, `limit`; all else of a resource belongs to the configuration"),
    ("[[resource.limit]]\nname = \"rest\"\n", "[resource.limit]\nname = \"rest\"\n", "32:1: invalid type: map, expected a list"),
    ("[[resource.limit]]\nname = \"rest\"\ncapacity = 7\nperiod = \"PT1M\"\n", "", "30:8: a resource has 1 to 64 limits"),
    ("[[resource.limit]]\nname = \"rest\"\ncapacity = 7\nperiod = \"PT1M\"\n", "limit = []\n", "30:8: a resource has 1 to 64 limits"),
    ("[[resource.limit]]\nname = \"rest\"\ncapacity = 7\nperiod = \"PT1M\"\n", "limit = \"none\"\n", "32:9: invalid type: string \"none\", expected a list"),
    ("[[resource.limit]]\nname = \"rest\"\ncapacity = 7\nperiod = \"PT1M\"\n", "limit = [{ name = \"rest\" }]\n", "32:10: missing field `capacity`"),
    ("[[resource.limit]]\nname = \"rest\"\ncapacity = 7\nperiod = \"PT1M\"\n", "limit = [5]\n", "32:10: invalid type: integer `5`, expected a limit"),
    ("[[resource.limit]]\nname = \"rest\"\n", "[[resource.limit]]\nname = \"rest\"\n[[resource.limit]]\n", "32:1: missing field `capacity`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\"\n[[resource]]\nname = \"hub\"\n[[resource.limit]]\nname = \"a\"\ncapacity = 1\nperiod = \"1s\"\n", "37:8: there are two resources `hub`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\"\n[resource.applied]\nby = \"me\"\n", "36:1: missing field `at`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\"\n[resource.applied]\nby = \"me\"\nat = \"now\"\nfile = \"f\"\nsha256 = \"0\"\nmore = 1\n", "41:1: unknown field `more`, expected one of `by`, `at`, `file`, `sha256`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\n", "35:15: invalid basic string, expected `\"`"),
    ("period = \"PT1M\"\n", "period = 'PT1M\"\n", "35:16: invalid literal string, expected `'`"),
    ("period = \"PT1M\"\n", "period = \"\"\"PT1M\n", "36:1: invalid multi-line basic string, expected `\"`"),
    ("period = \"PT1M\"\n", "period = \"PT1M\" capacity = 1\n", "35:17: unexpected key or value, expected newline, `#`"),
    ("period = \"PT1M\"\n", "period = \"\\x\"\n", "35:13: too few unicode value digits, expected unicode hexadecimal value"),
    ("period = \"PT1M\"\n", "period: \"PT1M\"\n", "35:9: key with no value, expected `=`"),
    ("period = \"PT1M\"\n", "period = PT1M\n", "35:10: string values must be quoted, expected literal string"),
    ("period = \"PT1M\"\n", "period = \"PT1M\",\n", "35:16: unexpected key or value, expected newline, `#`"),
    ("period = \"PT1M\"\n", "\"\" = 1\nperiod = \"PT1M\"\n", "35:1: unknown field ``, expected one of `name`, `unit`"),
    (VALID, "", "1:1: there is no [[resource]]"),
    (VALID, "# nothing\n", "1:1: there is no [[resource]]"),
    (VALID, "{\"resource\": [{\"name\": \"hub\"}]}", "1:1: invalid key-value pair, expected key"),
    (VALID, "resource:\n  - name: hub\n", "1:10: key with no value, expected `=`"),
];

/// All that the status says of the limits except their levels.
fn limits(status: &Status) -> Vec<(String, String, f64, f64, f64, bool)> {
    let limit = |limit: &LimitStatus| {
        let (name, algorithm) = (limit.name.to_string(), limit.algorithm.clone());
        (name, algorithm, limit.capacity, limit.period_ms, limit.margin, limit.shadow.is_some())
    };
    status.limits.iter().map(limit).collect()
}

fn wrong_texts() -> impl Iterator<Item = (String, &'static str)> {
    WRONG.iter().map(|(instead, this, expected)| {
        let text = VALID.replacen(instead, &this.replace("<65>", &"x".repeat(65)), 1);
        assert_ne!(text, VALID, "{instead:?} is in the valid rules");
        (text, *expected)
    })
}

#[tokio::test]
async fn wrong_rules_are_refused_with_place_and_reason_and_change_no_grant() {
    let nats = nats::start().await;
    let running = scheduler::start(&nats, CONFIGURATION).await;
    let worker = Worker::connect(&nats, "hub").await;
    let (code, said) = apply(RAMPMETER, &nats, VALID, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let before = worker.status().await;
    assert_eq!(limits(&before).len(), 3, "{before:?}");

    assert!(WRONG.len() >= 200);
    for (number, (text, expected)) in wrong_texts().enumerate() {
        // A file that a person applies.
        let (code, said) = apply(RAMPMETER, &nats, &text, &[]).await;
        assert_eq!(code, Some(1), "{text}\n{said}");
        assert!(said.starts_with(&format!("rampmeter: rules.toml:{expected}")), "not {expected}:\n{said}\n{text}");

        // The same, written without any check.
        let revision = put_by_hand(&nats, &text).await;
        let status = until("it is refused", async || {
            let status = worker.status().await;
            let rules = status.rules.as_ref().unwrap();
            assert_eq!(rules.revision, 1, "it counts:\n{text}");
            rules.refused.as_ref().is_some_and(|refused| refused.revision == revision).then_some(status)
        })
        .await;
        let reason = status
            .rules
            .as_ref()
            .and_then(|rules| rules.refused.as_ref())
            .map(|refused| refused.reason.clone())
            .unwrap();
        assert!(reason.starts_with(&format!("rules:{expected}")), "not {expected}: {reason}\n{text}");
        assert_eq!(limits(&status), limits(&before), "{text}");

        // Each permit is granted as before.
        let granted = worker.ask(json!({"mode": "allow"})).await;
        assert_eq!((&granted["status"], &granted["delay_ms"]), (&json!("granted"), &json!(0.0)), "{text}");
        let (level, spent) = (worker.limit("few").await.level, number as f64 + 1.0);
        assert!((999.0 - spent..1000.0 - spent).contains(&level), "{level} behind {spent}\n{text}");
    }
    let (_, metrics) = scheduler::page(&running, "/metrics").await;
    let refused = format!("rampmeter_rules_refused_total {}", WRONG.len());
    assert!(metrics.lines().any(|line| line == refused), "{refused}\n{metrics}");
    let (ready, page) = scheduler::page(&running, "/readyz").await;
    let rules = &serde_json::from_str::<Value>(&page).unwrap()["rules"];
    assert!(ready == 200 && rules["refused"]["reason"].is_string() && rules["revision"] == 1, "{page}");

    // More editions than the store keeps have come since the last good one. A new scheduler finds
    // the last good one nevertheless.
    scheduler::stop(running).await;
    let running = scheduler::start(&nats, CONFIGURATION).await;
    let status = worker.status_of_leader().await;
    assert_eq!(limits(&status), limits(&before));
    assert_eq!(status.counters.granted, 0, "a new scheduler answers");
    scheduler::stop(running).await;
}
