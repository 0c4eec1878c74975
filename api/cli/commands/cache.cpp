// tunesmith cache: what is in the file, and what to do with it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/cache/current_version.h"
#include "api/cli/cache/prune.h"
#include "api/cli/cache/record_lines.h"
#include "api/cli/cache/views.h"
#include "api/cli/commands/commands.h"
#include "templates/render.h"

namespace tunesmith::cli {
namespace {

struct CacheFlags {
  EngineFlags engine;
  bool json = false;
  bool all = false;  // list, show
  std::string op;
  std::string index;               // show
  bool source = false;             // show
  bool without_binaries = false;   // export
  bool records = false;            // export
  bool binaries_only = false;      // clear
  std::string target;              // export
  std::vector<std::string> files;  // import, merge
  int older_than_days = 0;         // prune; 0: not given
  int max_size_mib = 0;            // prune; 0: not given
  bool dry_run = false;            // prune

  /// As the flags of the engine have them. The hundreds of records that ship with the library would hide the others, so they
  /// are listed only when asked for.
  EngineOptions listed() const {
    EngineOptions options = engine.options();
    if (!all) options.shipped_cache.clear();
    return options;
  }
};

void print_json(const Json& json) { std::puts(dump_pretty(json).c_str()); }

std::vector<TuningRecord> records_of(Cache& cache, const std::string& op) {
  std::vector<TuningRecord> records = cache.list_records();
  if (!op.empty()) {
    find_op(op);  // an unknown name is a mistake, not an empty list
    std::erase_if(records, [&](const TuningRecord& record) { return record.key.op != op; });
  }
  return records;
}

int info(const CacheFlags& flags) {
  const CacheInfo found = open_cache(flags.engine.options())->info();
  if (flags.json)
    print_json(to_json(found));
  else
    std::fputs(info_listing(found).c_str(), stdout);
  return exit_done;
}

int list(const CacheFlags& flags) {
  const std::shared_ptr<Cache> cache = open_cache(flags.listed());
  const std::vector<TuningRecord> records = records_of(*cache, flags.op);
  if (flags.json) {
    Json json = Json::array();
    for (const TuningRecord& record : records) json.push_back(to_json(record));
    print_json({{"cache", cache->info().file.string()}, {"records", json}});
  } else {
    std::fputs(records_table(records).c_str(), stdout);
  }
  return exit_done;
}

TuningRecord pick_record(Cache& cache, const CacheFlags& flags) {
  const std::vector<TuningRecord> records = records_of(cache, flags.op);
  std::size_t number = 0;
  const char* const end = flags.index.data() + flags.index.size();
  const auto [rest, failure] = std::from_chars(flags.index.data(), end, number);
  if (records.empty())
    throw Error(ErrorCode::not_found, "the cache has no records", flags.op.empty() ? "" : " of " + flags.op);
  if (failure != std::errc() || rest != end || number < 1 || number > records.size())
    throw Error(ErrorCode::invalid_argument, "record is '", flags.index, "'; expected a number from 1 to ", records.size(),
                " as `tunesmith cache list` shows them");
  return records[number - 1];
}

int show(const CacheFlags& flags) {
  const EngineOptions options = flags.listed();
  const std::shared_ptr<Cache> cache = open_cache(options);
  const TuningRecord record = pick_record(*cache, flags);
  std::string source;
  if (flags.source) {
    const Op& op = find_op(record.key.op);
    const Problem problem =
        op.normalize({record.key.op, parse_fields(record.problem.substr(record.problem.find(' ') + 1), "recorded problem")});
    source = render(*op.parse(problem), {parse_fields(record.config, "recorded config")}, open_templates(options));
  }
  const std::vector<Trial> trials = cache->find_trials(record.key);
  if (flags.json) {
    Json json = to_json(record);
    json["trials"] = Json::array();
    for (const Trial& trial : trials) json["trials"].push_back(to_json(trial));
    if (flags.source) json["source"] = source;
    print_json(json);
  } else if (flags.source) {
    std::fwrite(source.data(), 1, source.size(), stdout);
  } else {
    std::printf("%s\n%s", record_listing(record).c_str(), trials_table(trials).c_str());
  }
  return exit_done;
}

int verify(const CacheFlags& flags) {
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  const std::vector<std::string> problems = cache->verify();
  const CacheInfo found = cache->info();
  if (flags.json) {
    print_json({{"cache", found.file.string()}, {"healthy", problems.empty()}, {"problems", problems}});
  } else {
    for (const std::string& problem : problems) std::printf("%s\n", problem.c_str());
    std::printf("%s: %lld records, %lld trials, %lld binaries, %lld sources\n",
                problems.empty() ? "healthy" : "what is left", static_cast<long long>(found.records),
                static_cast<long long>(found.trials), static_cast<long long>(found.binaries),
                static_cast<long long>(found.sources));
  }
  if (!problems.empty())
    throw Error(ErrorCode::cache_failed, "'", found.file.string(), "' had ", problems.size(),
                problems.size() == 1 ? " problem" : " problems", "; damaged rows were removed");
  return exit_done;
}

/// The records that this version can use, without what others ship.
int export_records(const CacheFlags& flags) {
  EngineOptions own = flags.engine.options();
  own.system_caches.clear();
  own.shipped_cache.clear();
  std::vector<TuningRecord> records = open_cache(own)->list_records();
  CurrentVersion version(own);
  const std::size_t unusable =
      std::erase_if(records, [&](const TuningRecord& record) { return !version.why_unusable(record).empty(); });
  write_lines(records, flags.target);
  std::printf("wrote %s: %zu records, %lld bytes", flags.target.c_str(), records.size(),
              static_cast<long long>(std::filesystem::file_size(flags.target)));
  if (unusable > 0) std::printf("; %zu left out, which this version cannot use", unusable);
  std::printf("\n");
  return exit_done;
}

int export_cache(const CacheFlags& flags) {
  if (flags.records) return export_records(flags);
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  cache->export_to(flags.target, !flags.without_binaries);
  std::printf("wrote %s\n", flags.target.c_str());
  return exit_done;
}

int import_cache(const CacheFlags& flags) {
  for (const std::string& file : flags.files)
    if (!std::filesystem::exists(file))
      throw Error(ErrorCode::not_found, "'", file, "' does not exist; expected a cache file");
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  for (const std::string& file : flags.files) {
    const std::int64_t taken = holds_lines(file) ? cache->import_records(read_lines(file)) : cache->import_from(file);
    std::printf("%lld rows taken from %s\n", static_cast<long long>(taken), file.c_str());
  }
  return exit_done;
}

int clear(const CacheFlags& flags) {
  if (!flags.op.empty()) find_op(flags.op);
  const std::shared_ptr<Cache> cache = open_cache(flags.engine.options());
  std::printf("%lld rows removed\n", static_cast<long long>(cache->clear({flags.op, flags.binaries_only})));
  return exit_done;
}

int prune(const CacheFlags& flags) {
  PruneSettings settings;
  if (flags.older_than_days > 0) settings.older_than_days = flags.older_than_days;
  if (flags.max_size_mib > 0) settings.max_bytes = std::int64_t{flags.max_size_mib} << 20;
  settings.dry_run = flags.dry_run;
  settings.json = flags.json;
  return prune_cache(flags.engine.options(), settings);
}

CLI::App* add(CLI::App* parent, const char* name, const char* help, const std::shared_ptr<CacheFlags>& flags, Action& chosen,
              int (*work)(const CacheFlags&)) {
  CLI::App* command = parent->add_subcommand(name, help);
  flags->engine.add_cache(*command);
  command->callback([&chosen, flags, work] { chosen = [flags, work] { return work(*flags); }; });
  return command;
}

void add_op(CLI::App* command, CacheFlags& flags) {
  command->add_option("--op", flags.op, "only this operation")->type_name("OP");
}

void add_all(CLI::App* command, CacheFlags& flags) {
  command->add_flag("--all", flags.all, "with the records that ship with tunesmith");
}

void add_json(CLI::App* command, CacheFlags& flags) {
  command->add_flag("--json", flags.json, "one JSON value on stdout, nothing else");
}

}  // namespace

void add_cache(CLI::App& app, Action& chosen) {
  CLI::App* cache = app.add_subcommand("cache", "look at the cache file, check it, ship it, clear it");
  cache->require_subcommand(1);
  auto flags = std::make_shared<CacheFlags>();
  add_json(add(cache, "info", "where it is, what it holds, how it is kept", flags, chosen, info), *flags);

  CLI::App* command = add(cache, "list", "tuning records, numbered", flags, chosen, list);
  add_op(command, *flags);
  add_all(command, *flags);
  add_json(command, *flags);

  command = add(cache, "show", "one record with its trials", flags, chosen, show);
  command->add_option("record", flags->index, "its number in `cache list` (with the same --op and --all)")
      ->required()
      ->type_name("N");
  command->add_flag("--source", flags->source, "print the source of its configuration instead");
  add_op(command, *flags);
  add_all(command, *flags);
  add_json(command, *flags);

  add_json(add(cache, "verify", "check the file and every row; damaged rows are removed", flags, chosen, verify), *flags);

  command = add(cache, "export", "write a compact copy, fit to be a system cache", flags, chosen, export_cache);
  command->add_option("to", flags->target, "the file to write; must not exist")->required()->type_name("FILE");
  command->add_flag("--without-binaries", flags->without_binaries, "tuning records only");
  command->add_flag("--records", flags->records,
                    "text instead: the tuning records that this version can use, a JSON object each line (*.jsonl)");

  for (const char* name : {"import", "merge"}) {
    command =
        add(cache, name, "take what other cache files have and this one lacks, or has older", flags, chosen, import_cache);
    command->add_option("from", flags->files, "the files to read; *.jsonl: records as text")
        ->required()
        ->type_name("FILE...");
  }

  command =
      add(cache, "prune", "remove what this version cannot use: other templates, other toolchains", flags, chosen, prune);
  command
      ->add_option("--older-than", flags->older_than_days,
                   "also binaries that were stored more than so many days ago (when they were used is not recorded)")
      ->type_name("DAYS")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--max-size", flags->max_size_mib, "then the oldest binaries, until the file is no larger")
      ->type_name("MiB")
      ->check(CLI::Range(1, 1 << 30));
  command->add_flag("--dry-run", flags->dry_run, "remove nothing, say what would go");
  add_json(command, *flags);

  command = add(cache, "clear", "remove records and binaries", flags, chosen, clear);
  add_op(command, *flags);
  command->add_flag("--binaries-only", flags->binaries_only, "keep the tuning records");
  cache->footer(
      "Examples:\n"
      "  tunesmith cache list --op softmax\n"
      "  tunesmith cache export service.db && TUNESMITH_SYSTEM_CACHE=service.db ./server");
}

}  // namespace tunesmith::cli
