#include "fleet/remote_url.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

template <typename... Parts>
[[noreturn]] void reject(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, "remote URL: ", parts...);
}

std::int64_t number(std::string_view what, std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || rest != text.data() + text.size() || value < least || value > most)
    reject(what, " is '", text, "'; allowed: ", least, " to ", most);
  return value;
}

std::string decoded(std::string_view what, std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [rest, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || failure != std::errc() || rest != digits.data() + 2)
      reject(what, " is '", text, "'; '%' must be followed by two hex digits");
    plain += static_cast<char>(byte);
    i += 2;
  }
  return plain;
}

// Names are parts of keys on the server and of file names.
std::string plain_name(std::string_view what, std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (text.empty() || text.size() > 64 || text.front() == '.' || !std::ranges::all_of(text, is_plain))
    reject(what, " is '", text, "'; expected 1 to 64 letters, digits, '-', '_' and '.'");
  return std::string(text);
}

void set_options(RemoteUrl& url, std::string_view query) {
  using Set = std::function<void(std::string_view)>;
  const auto file = [](const char* what, std::filesystem::path& path) {
    return [what, &path](std::string_view text) {
      path = decoded(what, text);
      if (path.empty()) reject(what, " is empty; expected a file");
    };
  };
  const auto limit = [](const char* what, std::chrono::milliseconds& time) {
    return [what, &time](std::string_view text) { time = std::chrono::milliseconds(number(what, text, 1, 60'000)); };
  };
  const std::map<std::string_view, Set> options{
      {"ns", [&](std::string_view text) { url.name_space = plain_name("ns", text); }},
      {"mode",
       [&](std::string_view text) {
         if (text != "ro" && text != "rw") reject("mode is '", text, "'; allowed: ro, rw");
         url.read_only = text == "ro";
       }},
      {"user", [&](std::string_view text) { url.user = decoded("user", text); }},
      {"generation", [&](std::string_view text) { url.generation = plain_name("generation", text); }},
      {"ca", file("ca", url.ca)},
      {"password_file", file("password_file", url.password_file)},
      {"trust", file("trust", url.trust)},
      {"sign", file("sign", url.sign)},
      {"connect_ms", limit("connect_ms", url.connect)},
      {"get_ms", limit("get_ms", url.record)},
      {"binary_ms", limit("binary_ms", url.binary)},
      {"ttl_days", [&](std::string_view text) { url.ttl_days = static_cast<int>(number("ttl_days", text, 1, 3650)); }},
  };
  std::set<std::string_view> seen;
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    const std::string_view name = item.substr(0, item.find('='));
    const auto option = options.find(name);
    if (option == options.end() || name.size() == item.size()) {
      std::string known;
      for (const auto& [other, set] : options) known.append(known.empty() ? "" : ", ").append(other);
      reject("option is '", item, "'; expected NAME=VALUE with one of ", known);
    }
    if (!seen.insert(name).second) reject("option ", name, " is given twice");
    option->second(item.substr(name.size() + 1));
  }
}

void set_server(RemoteUrl& url, std::string_view server) {
  if (const std::size_t at = server.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = server.substr(0, at);
    if (user.find(':') != std::string_view::npos)
      reject("it contains a password; passwords are read from a file: password_file=FILE");
    url.user = decoded("user", user);
    server.remove_prefix(at + 1);
  }
  std::size_t end = server.find(':');
  if (server.starts_with('[')) {
    const std::size_t close = server.find(']');
    if (close == std::string_view::npos) reject("host is '", server, "'; expected ']' after an IPv6 address");
    url.host = server.substr(1, close - 1);
    end = close + 1 < server.size() ? close + 1 : std::string_view::npos;
    if (end != std::string_view::npos && server[end] != ':') reject("host is '", server, "'; expected [ADDRESS]:PORT");
  } else {
    url.host = server.substr(0, end);
  }
  if (url.host.empty()) reject("the host is missing; expected e.g. redis://cache.example:6379");
  if (end != std::string_view::npos) url.port = static_cast<int>(number("port", server.substr(end + 1), 1, 65535));
}

}  // namespace

std::string RemoteUrl::address() const {
  if (transport == Transport::unix_socket) return "redis+unix:" + socket.string();
  const std::string written = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return (transport == Transport::tls ? "rediss://" : "redis://") + written + ":" + std::to_string(port);
}

RemoteUrl parse_remote_url(std::string_view text) {
  RemoteUrl url;
  std::string_view rest = text, query;
  if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos) {
    query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  const auto take = [&](std::string_view scheme) {
    if (!rest.starts_with(scheme)) return false;
    rest.remove_prefix(scheme.size());
    return true;
  };
  if (take("redis+unix:")) {
    url.transport = RemoteUrl::Transport::unix_socket;
    take("//");
    url.socket = decoded("socket", rest);
    if (!url.socket.is_absolute()) reject("socket is '", rest, "'; expected an absolute path: redis+unix:/run/redis.sock");
  } else if (take("rediss://") || take("redis://")) {
    if (text.starts_with("rediss")) url.transport = RemoteUrl::Transport::tls;
    const std::size_t slash = rest.find('/');
    set_server(url, rest.substr(0, slash));
    if (slash != std::string_view::npos && slash + 1 < rest.size())
      url.database = static_cast<int>(number("database", rest.substr(slash + 1), 0, 65535));
  } else {
    // The whole text could contain a password.
    reject("scheme is '", text.substr(0, std::min(text.find(':'), std::size_t{16})),
           "'; allowed: redis://, rediss://, redis+unix:");
  }
  set_options(url, query);
  if (!url.ca.empty() && url.transport != RemoteUrl::Transport::tls) reject("ca needs rediss://");
  if (!url.user.empty() && url.password_file.empty()) reject("user is '", url.user, "', which needs password_file=FILE");
  if (!url.generation.empty() && !url.has_keys())
    reject("generation is '", url.generation, "', which needs trust=FILE: generations are signed");
  if (url.read_only && !url.sign.empty()) reject("sign needs mode=rw");
  return url;
}

}  // namespace tunesmith::fleet
