// tunesmith ops: the operations; as JSON, with the fields and arrays of their problems.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/report/table.h"
#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {
namespace {

const char* name_of(const FieldInfo& field) {
  switch (kind_of(field)) {
    case FieldKind::choice: return "choice";
    case FieldKind::toggle: return "switch";
    case FieldKind::file:
    case FieldKind::free_text: return "string";
    case FieldKind::number: return field.kind == tunesmith::FieldKind::real ? "real" : "integer";
  }
  return "";
}

Json json_of(const FieldInfo& field) {
  Json json{{"name", field.name}, {"kind", name_of(field)}, {"meaning", field.meaning}};
  if (!field.choices.empty()) json["choices"] = field.choices;
  if (!field.range_text.empty()) json["range"] = field.range_text;
  json["required"] = field.default_text.empty();
  if (!field.default_text.empty()) json["default"] = field.default_text;
  return json;
}

/// An array of a problem with default fields; absent arrays of options included.
Json json_of(const ArrayInfo& array) {
  return {{"name", array.name},
          {"role", array.input && array.output ? "inout"
                   : array.input               ? "input"
                                               : "output"},
          {"dtype", name(array.dtype)},
          {"shape", array.dims},
          {"always_present", array.present},
          {"meaning", array.meaning}};
}

Json json_of(const Op& op, const TemplateSet& templates) {
  Json fields = Json::array(), arrays = Json::array();
  for (const FieldInfo& field : op.problem_fields())
    if (!field.hidden) fields.push_back(json_of(field));
  for (const ArrayInfo& array : op.describe_arrays({})) arrays.push_back(json_of(array));
  return {{"op", op.name()},
          {"summary", op.summary()},
          {"fields", fields},
          {"arrays", arrays},
          {"templates", templates.digest(op.templates())}};
}

int list_operations(bool json) {
  const TemplateSet templates = open_templates(EngineOptions::from_environment());
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Op* op : all_ops()) {
    if (op->is_internal()) continue;
    if (json) all.push_back(json_of(*op, templates));
    rows.push_back({std::string(op->name()), std::string(op->summary())});
  }
  const std::string text =
      json ? dump_pretty(all) : table({{"operation"}, {"summary"}}, rows) + "\n" + shipped_programs_text();
  std::fputs((text + (json ? "\n" : "")).c_str(), stdout);
  return exit_done;
}

}  // namespace

void add_ops(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand("ops", "list the operations");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print fields, choices, defaults and arrays as JSON");
  command->callback([&parse, json] { parse.action = [json] { return list_operations(*json); }; });
}

}  // namespace tunesmith::cli
