#include "api/cli/tuning/prewarm_spec.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/cli/arguments/combinations.h"
#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/nearest.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/input/text_file.h"
#include "templates/op.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, parts...);
}

/// Rejects repeated keys, which JSON allows.
Json parse_strictly(std::string_view text) {
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second)
      fail("key '", parsed.get<std::string>(), "' appears twice in one object");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {  // its message begins with "[json.exception...] "
    const std::string what = error.what();
    const std::size_t end_of_name = what.find("] ");
    fail("not JSON: ", end_of_name == std::string::npos ? what : what.substr(end_of_name + 2));
  }
}

Value value_of(const Json& json, const std::string& place) {
  if (json.is_boolean()) return std::int64_t{json.get<bool>()};
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    fail(place, " is ", json.dump(), "; expected a number that fits 64 bits");
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  fail(place, " is ", json.dump(), "; expected a number, a string or a list of them");
}

/// One key of an entry, and its values with their places in the file.
struct Axis {
  std::string key;
  bool is_source;  ///< values are user sources, whose places also name their files
  std::vector<std::pair<Value, std::string>> values;
};

/// Reads a file that the spec names. Also returns its place, "problems[0].mask_mod ('documents.cu')".
std::pair<Value, std::string> source_in_file(const Json& json, const std::string& place,
                                             const std::filesystem::path& folder) {
  if (!json.is_string() || json.get<std::string>().empty())
    fail(place, " is ", json.dump(), "; expected the name of a file");
  const std::filesystem::path file = folder / json.get<std::string>();
  return {read_text_file(place, file), place + " ('" + file.string() + "')"};
}

Axis read_axis(const std::string& key, const Json& json, const std::string& place, const std::filesystem::path& folder) {
  Axis axis{key, is_read_from_file(key), {}};
  const auto add = [&](const Json& value, const std::string& where) {
    axis.values.push_back(axis.is_source ? source_in_file(value, where, folder) : std::pair(value_of(value, where), where));
  };
  if (!json.is_array()) {
    add(json, place);
    return axis;
  }
  if (json.empty()) fail(place, " is an empty list; expected at least one value");
  for (std::size_t i = 0; i < json.size(); ++i) add(json[i], place + "[" + std::to_string(i) + "]");
  return axis;
}

/// Makes a problem from one combination of an entry's values. `choice[i]` is the index into axes[i].
SpecProblem make_problem(const std::vector<Axis>& axes, const std::vector<std::size_t>& choice, const std::string& entry) {
  SpecProblem made;
  Problem& problem = made.problem;
  const auto chosen = [&](std::size_t i) -> const auto& { return axes[i].values[choice[i]]; };
  const Op* op = nullptr;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].key == "op") try {
        problem.op = text(chosen(i).first);
        op = &operation(problem.op);
      } catch (const Error& error) {
        fail(chosen(i).second, ": ", error.what());
      }
  if (op == nullptr) fail(entry, " has no \"op\"; expected the name of an operation, e.g. \"softmax\"");

  std::vector<std::string> allowed{"op"};
  for (const FieldInfo& field : op->problem_fields()) allowed.emplace_back(field.name);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].key == "op") continue;
    if (std::ranges::find(allowed, axes[i].key) == allowed.end())
      fail(entry, ".", axes[i].key, " is not a field of ", problem.op, suggestion(axes[i].key, allowed));
    problem.fields.set(axes[i].key, chosen(i).first);
    if (axes[i].is_source) made.sources += (made.sources.empty() ? "" : ", ") + chosen(i).second;
  }
  try {
    problem = op->normalize(problem);
  } catch (const Error& error) {
    // The message begins with the field: add the place of its value in the file.
    const std::string message = error.what();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (message.starts_with(axes[i].key + " ")) fail(chosen(i).second, message.substr(axes[i].key.size()));
      if (message.starts_with(axes[i].key + ".")) fail(chosen(i).second, ": ", message);  // a line of a user source
    }
    fail(entry, ": ", message, made.sources.empty() ? "" : "; user sources: " + made.sources);
  }
  return made;
}

void add_entry(std::vector<SpecProblem>& problems, const Json& json, const std::string& entry,
               const std::filesystem::path& folder) {
  if (!json.is_object())
    fail(entry, " is ", json.dump().substr(0, 40), "; expected an object such as {\"op\": \"softmax\", ...}");
  std::vector<Axis> axes;
  for (const auto& [key, value] : json.items()) axes.push_back(read_axis(key, value, entry + "." + key, folder));
  std::vector<std::size_t> sizes;
  for (const Axis& axis : axes) sizes.push_back(axis.values.size());
  for_each_combination(sizes, [&](const std::vector<std::size_t>& choice) {
    SpecProblem made = make_problem(axes, choice, entry);
    if (std::ranges::find(problems, made.problem, &SpecProblem::problem) == problems.end())
      problems.push_back(std::move(made));
    if (problems.size() > max_problems) fail(entry, " makes more than ", max_problems, " problems");
  });
}

/// Reports whether the text is a problem log: its first line is an object with "op".
bool is_problem_log(std::string_view text) {
  const Json first = Json::parse(text.substr(0, text.find('\n')), nullptr, false);
  return first.is_object() && first.contains("op");
}

std::vector<SpecProblem> parse_problem_log(std::string_view text) {
  std::vector<std::pair<SpecProblem, std::int64_t>> counted;
  std::map<std::string, std::size_t, std::less<>> places;  // by problem
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (end == std::string_view::npos && !Json::accept(line)) break;  // cut off
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    const std::string place = "line " + std::to_string(number);
    Json json;
    try {
      json = parse_strictly(line);
    } catch (const Error& error) {
      fail(place, ": ", error.what());
    }
    if (!json.is_object()) fail(place, " is no object");
    std::int64_t count = 1;
    if (const auto given = json.find("count"); given != json.end()) {
      if (!given->is_number_integer()) fail(place, ".count is ", given->dump(), "; expected a number");
      count = given->get<std::int64_t>();
      json.erase("count");
    }
    std::vector<Axis> axes;
    for (const auto& [key, value] : json.items()) {
      const std::string where = place + "." + key;
      axes.push_back({key, false, {{value_of(value, where), where}}});
    }
    SpecProblem made = make_problem(axes, std::vector<std::size_t>(axes.size(), 0), place);
    const auto [known, is_new] = places.try_emplace(made.problem.text(), counted.size());
    if (is_new)
      counted.emplace_back(std::move(made), count);
    else
      counted[known->second].second += count;
    if (counted.size() > max_problems) fail("there are more than ", max_problems, " problems");
  }
  std::ranges::stable_sort(counted, std::ranges::greater(), [](const auto& item) { return item.second; });
  std::vector<SpecProblem> problems;
  for (auto& [problem, count] : counted) problems.push_back(std::move(problem));
  return problems;
}

}  // namespace

std::vector<SpecProblem> parse_spec(std::string_view text, const std::filesystem::path& file) try {
  if (is_problem_log(text)) return parse_problem_log(text);
  const Json spec = parse_strictly(text);
  if (!spec.is_object()) fail("expected an object with the key \"problems\"");
  for (const auto& [key, value] : spec.items())
    if (key != "problems") fail("unknown key '", key, "' at the top", suggestion(key, {"problems"}));
  if (!spec.contains("problems") || !spec["problems"].is_array() || spec["problems"].empty())
    fail("\"problems\" is ",
         !spec.contains("problems")    ? "missing"
         : spec["problems"].is_array() ? "an empty list"
                                       : "not a list",
         "; expected {\"problems\": [{\"op\": ...}, ...]}");
  std::vector<SpecProblem> problems;
  for (std::size_t i = 0; i < spec["problems"].size(); ++i)
    add_entry(problems, spec["problems"][i], "problems[" + std::to_string(i) + "]", file.parent_path());
  return problems;
} catch (const Error& error) {
  throw Error(error.code(), "'", file.string(), "': ", error.what());
}

std::vector<SpecProblem> read_spec(const std::filesystem::path& file) {
  return parse_spec(read_text_file("--spec", file), file);
}

}  // namespace tunesmith::cli
