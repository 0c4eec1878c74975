// tunesmith source: the generated CUDA source, its PTX, or its resources. Needs no GPU.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/arguments/target.h"
#include "api/cli/report/resources.h"
#include "api/cli/report/table.h"
#include "api/engine/parts.h"
#include "templates/render.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

struct SourceFlags {
  std::shared_ptr<const ProblemFlags> problem;
  EngineFlags engine;
  ConfigFlag config;
  std::string arch;
  std::string split;
  bool ptx = false, resources = false, kernel = false, fold = false;
};

/// Writes the files below `folder` and prints their names.
void write_files(const std::vector<SourceFile>& files, const std::filesystem::path& folder) {
  for (const SourceFile& file : files) {
    const std::filesystem::path path = folder / file.name;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    std::ofstream stream(path, std::ios::binary);
    if (!(stream << file.content).flush()) throw Error(ErrorCode::io, "file '", path.string(), "' cannot be written");
    std::printf("%s\n", path.string().c_str());
  }
}

int source(const SourceFlags& flags) {
  const EngineOptions options = flags.engine.options();
  const Op& op = flags.problem->op();
  const Problem problem = op.normalize(flags.problem->problem());
  const TemplateSet templates = open_templates(options);
  const Target target = find_target(flags.arch);
  const Config config = choose_config(op, problem, target, flags.config.config(), templates, options);

  const ParsedProblemPtr parsed = op.parse(problem);
  const KernelSource kernel_source(*parsed, config, templates);
  if (!flags.split.empty()) {
    write_files(kernel_source.render_files(), flags.split);
    return exit_done;
  }
  const std::string text = flags.fold     ? kernel_source.render_folded(flags.kernel)
                           : flags.kernel ? kernel_source.render_kernel()
                                          : kernel_source.render();
  if (!flags.ptx && !flags.resources) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return exit_done;
  }
  const std::shared_ptr<Compiler> compiler = open_compiler(DeviceInfo::Kind::cuda, options);
  const CompileRequest request{kernel_source.file(), text, target.device.arch};
  if (flags.ptx) {
    const std::string ptx = compiler->assembly(request);
    std::fwrite(ptx.data(), 1, ptx.size(), stdout);
    return exit_done;
  }
  const LaunchPlan plan = parsed->launch_plan(config, target.device);
  const Binary binary = compiler->compile(request);
  const std::string head = listing(
      {{"problem", problem.op + " " + brief(problem)},
       {"config", config.text()},
       {"device", target.device.name + (target.present ? "" : ": estimated from its architecture's facts")},
       {"binary", std::to_string(binary.image.size()) + " bytes, compiled in " + fixed(binary.compile_ms, 1) + " ms"}});
  std::printf("%s\n%s", head.c_str(), table(resource_columns(), resource_rows(target.device, plan, binary)).c_str());
  return exit_done;
}

}  // namespace

void add_source(CLI::App& app, Parse& parse) {
  CLI::App* source_command =
      app.add_subcommand("source", "print the generated CUDA source, its PTX or its resources (no GPU)");
  source_command->footer(
      "`tunesmith source OP --help` lists the flags of an operation.\n"
      "\n"
      "Examples:\n"
      "  tunesmith source softmax --rows 4096 --cols 32000 --dtype bf16 --arch sm_90a > softmax.cu\n"
      "  tunesmith source softmax --rows 4096 --cols 32000 --config variant=two_pass --resources");
  add_operations(
      *source_command, parse, [](CLI::App& command, const std::shared_ptr<const ProblemFlags>& problem) -> Action {
        auto flags = std::make_shared<SourceFlags>();
        flags->problem = problem;
        command.add_option("--arch", flags->arch, "architecture, e.g. sm_90a (default: this machine's GPU, else sm_90a)")
            ->type_name("ARCH");
        flags->config.add_to(command);
        CLI::Option* ptx = command.add_flag("--ptx", flags->ptx, "print the PTX instead");
        CLI::Option* resources =
            command
                .add_flag("--resources", flags->resources, "print registers, shared memory, spills and occupancy instead")
                ->excludes(ptx);
        CLI::Option* kernel = command.add_flag("--kernel", flags->kernel, "print the kernel and its constants alone")
                                  ->excludes(ptx)
                                  ->excludes(resources);
        CLI::Option* fold =
            command.add_flag("--fold", flags->fold, "omit the branches that this configuration does not take, for reading");
        command.add_option("--split", flags->split, "write kernel and headers as files for `nvcc -I DIR` instead")
            ->type_name("DIR")
            ->excludes(ptx)
            ->excludes(resources)
            ->excludes(kernel)
            ->excludes(fold);
        flags->engine.add_specialize(command);
        flags->engine.add_cache(command);
        return [flags] { return source(*flags); };
      });
}

}  // namespace tunesmith::cli
