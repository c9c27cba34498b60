#include "wire/testing/message_mutator.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace evenstep::wire::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kElementsVisited = 4;
constexpr int kElementsAdded = 300;
constexpr size_t kLongText = 100'000;

}  // namespace

int MessageMutator::Below(int bound) {
  return static_cast<int>(random_() % static_cast<uint64_t>(bound));
}

int64_t MessageMutator::Integer(int64_t now) {
  const auto wrapped = [&](uint64_t change) {
    return static_cast<int64_t>(static_cast<uint64_t>(now) + change);
  };
  const int64_t values[] = {0,
                            1,
                            -1,
                            -5,
                            77,
                            wrapped(1),
                            wrapped(~uint64_t{0}),
                            wrapped(static_cast<uint64_t>(now)),
                            int64_t{1} << 31,
                            int64_t{1} << 40,
                            int64_t{1} << 62,
                            std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int32_t>::max(),
                            std::numeric_limits<int32_t>::min(),
                            static_cast<int64_t>(random_())};
  return values[Below(std::size(values))];
}

double MessageMutator::Real(double now) {
  const double values[] = {0,
                           -1,
                           -now,
                           now * 1e9,
                           1e300,
                           std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::denorm_min()};
  return values[Below(std::size(values))];
}

std::string MessageMutator::Text(const std::string& now) {
  switch (Below(6)) {
    case 0:
      return "";
    case 1:
      return now + "x";
    case 2:
      return std::string(kLongText, 'a');
    case 3:
      return std::string("\0\n\x1b[2J", 6);
    case 4:
      return "\xc3\xa9/../" + now;
    default:
      return std::to_string(random_());
  }
}

void MessageMutator::Collect(Message* message, std::vector<Site>* sites) {
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message->GetDescriptor()->field(i);
    if (field->is_repeated()) {
      sites->push_back({message, field});
      const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      const int size = reflection.FieldSize(*message, field);
      for (int n = 0; nested && n < std::min(size, kElementsVisited); ++n) {
        Collect(reflection.MutableRepeatedMessage(message, field, n), sites);
      }
      continue;
    }
    const bool there = reflection.HasField(*message, field);
    // What is of the message's kind stays; absent scalars get a value too.
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!there) continue;
      if (field->containing_oneof() == nullptr) {
        sites->push_back({message, field});
      }
      Collect(reflection.MutableMessage(message, field), sites);
    } else if (there || field->containing_oneof() == nullptr) {
      sites->push_back({message, field});
    }
  }
}

void MessageMutator::ChangeOneField(Message* message) {
  std::vector<Site> sites;
  Collect(message, &sites);
  if (sites.empty()) return;
  Change(sites[Below(static_cast<int>(sites.size()))]);
}

void MessageMutator::Change(const Site& site) {
  if (site.field->is_repeated()) return ChangeList(site);
  if (site.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return site.message->GetReflection()->ClearField(site.message, site.field);
  }
  ChangeScalar(site);
}

void MessageMutator::ChangeScalar(const Site& site) {
  Message* const m = site.message;
  const FieldDescriptor* const f = site.field;
  const Reflection& r = *m->GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r.SetInt32(m, f, static_cast<int32_t>(Integer(r.GetInt32(*m, f))));
    case FieldDescriptor::CPPTYPE_INT64:
      return r.SetInt64(m, f, Integer(r.GetInt64(*m, f)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return r.SetUInt32(m, f, static_cast<uint32_t>(random_()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.SetUInt64(m, f, random_());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return r.SetDouble(m, f, Real(r.GetDouble(*m, f)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return r.SetFloat(m, f, static_cast<float>(Real(r.GetFloat(*m, f))));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r.SetBool(m, f, !r.GetBool(*m, f));
    case FieldDescriptor::CPPTYPE_ENUM:
      return r.SetEnumValue(m, f, static_cast<int>(Integer(0)));
    case FieldDescriptor::CPPTYPE_STRING:
      return r.SetString(m, f, Text(r.GetString(*m, f)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

void MessageMutator::ChangeList(const Site& site) {
  Message* const m = site.message;
  const FieldDescriptor* const f = site.field;
  const Reflection& r = *m->GetReflection();
  const int size = r.FieldSize(*m, f);
  const int choice = Below(4);
  if (choice == 0 && size > 0) return r.RemoveLast(m, f);
  if (choice == 1) return r.ClearField(m, f);
  if (choice == 2 && size > 0) return ChangeElement(site, Below(size));
  const int added = OneIn(2) ? 1 : kElementsAdded;
  for (int i = 0; i < added; ++i) {
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        r.AddInt32(m, f, static_cast<int32_t>(Integer(i)));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        r.AddInt64(m, f, Integer(i));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        r.AddString(m, f, Text("element"));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        r.AddEnumValue(m, f, static_cast<int>(Integer(i)));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        r.AddDouble(m, f, Real(i));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (size > 0) {
          const auto& first = r.GetRepeatedMessage(*m, f, 0);
          std::unique_ptr<Message> copy(first.New());
          copy->CopyFrom(first);
          r.AddMessage(m, f)->CopyFrom(*copy);
        } else {
          r.AddMessage(m, f);
        }
        break;
      default:
        return;
    }
  }
}

void MessageMutator::ChangeElement(const Site& site, int index) {
  Message* const m = site.message;
  const FieldDescriptor* const f = site.field;
  const Reflection& r = *m->GetReflection();
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r.SetRepeatedInt32(
          m, f, index,
          static_cast<int32_t>(Integer(r.GetRepeatedInt32(*m, f, index))));
    case FieldDescriptor::CPPTYPE_INT64:
      return r.SetRepeatedInt64(m, f, index,
                                Integer(r.GetRepeatedInt64(*m, f, index)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return r.SetRepeatedDouble(m, f, index,
                                 Real(r.GetRepeatedDouble(*m, f, index)));
    case FieldDescriptor::CPPTYPE_STRING:
      return r.SetRepeatedString(m, f, index,
                                 Text(r.GetRepeatedString(*m, f, index)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ChangeOneField(r.MutableRepeatedMessage(m, f, index));
    default:
      return r.RemoveLast(m, f);
  }
}

}  // namespace evenstep::wire::testing
