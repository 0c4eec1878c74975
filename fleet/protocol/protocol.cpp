#include "fleet/protocol/protocol.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "fleet/protocol/error.h"

namespace tunesmith::fleet {
namespace {

// Attaches a reply to the array that contains it. hiredis frees the root only.
void* attach(const redisReadTask* task, Reply* reply) noexcept {
  if (task->parent == nullptr) return reply;
  auto* array = static_cast<Reply*>(task->parent->obj);
  const auto index = static_cast<std::size_t>(task->idx);
  if (index >= array->elements.size()) {
    delete reply;
    return nullptr;
  }
  array->elements[index] = std::move(*reply);
  delete reply;
  return &array->elements[index];
}

Reply::Type type_of(int type) {
  if (type == REDIS_REPLY_ERROR) return Reply::Type::error;
  return type == REDIS_REPLY_STATUS ? Reply::Type::status : Reply::Type::string;
}

// hiredis treats nullptr as lack of memory.
template <typename Make>
void* make(const redisReadTask* task, const Make& fill) noexcept {
  try {
    auto reply = std::make_unique<Reply>();
    if (!fill(*reply)) return nullptr;
    return attach(task, reply.release());
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// The count of elements is an int in hiredis 0.14 and a size_t from 1.0 on; `auto` fits both.
redisReplyObjectFunctions functions() {
  redisReplyObjectFunctions made{};
  made.createString = [](const redisReadTask* task, char* text, std::size_t size) {
    return make(task, [&](Reply& reply) {
      reply.type = type_of(task->type);
      reply.text.assign(text, size);
      return true;
    });
  };
  made.createArray = [](const redisReadTask* task, auto count) {
    return make(task, [&](Reply& reply) {
      if (static_cast<std::size_t>(count) > ReplyParser::max_elements) return false;
      reply.type = Reply::Type::array;
      reply.elements.resize(static_cast<std::size_t>(count));
      return true;
    });
  };
  made.createInteger = [](const redisReadTask* task, long long value) {
    return make(task, [&](Reply& reply) {
      reply.type = Reply::Type::integer;
      reply.integer = value;
      return true;
    });
  };
  made.createNil = [](const redisReadTask* task) { return make(task, [](Reply&) { return true; }); };
  made.freeObject = [](void* reply) { delete static_cast<Reply*>(reply); };
  return made;
}

}  // namespace

std::string encode(std::span<const std::string> command) {
  std::vector<const char*> words;
  std::vector<std::size_t> sizes;
  for (const std::string& word : command) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* bytes = nullptr;
  const auto size = redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), words.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  std::string encoded(bytes, static_cast<std::size_t>(size));
  redisFreeCommand(bytes);
  return encoded;
}

struct ReplyParser::State {
  redisReplyObjectFunctions replies = functions();
  redisReader* reader = redisReaderCreateWithFunctions(&replies);
};

ReplyParser::ReplyParser() : state_(std::make_unique<State>()) {
  if (state_->reader == nullptr) throw std::bad_alloc();
}

ReplyParser::~ReplyParser() { redisReaderFree(state_->reader); }

void ReplyParser::feed(std::string_view bytes) {
  if (redisReaderFeed(state_->reader, bytes.data(), bytes.size()) != REDIS_OK)
    throw RemoteError(Failure::protocol, std::string("not a reply: ") + state_->reader->errstr);
}

std::optional<Reply> ReplyParser::next() {
  void* found = nullptr;
  if (redisReaderGetReply(state_->reader, &found) != REDIS_OK)
    throw RemoteError(Failure::protocol, std::string("not a reply: ") + state_->reader->errstr);
  if (found == nullptr) return std::nullopt;
  const std::unique_ptr<Reply> reply(static_cast<Reply*>(found));
  return std::move(*reply);
}

}  // namespace tunesmith::fleet
