// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/route_choice.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "tests/unit/cuda/routes/fake_route.h"
#include "tests/unit/cuda/routes/pictures.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

const FakeBehaviour kBridge{.name = "bridge", .copies = true, .on_device = true};
const FakeBehaviour kCopy{.name = "copy", .copies = true, .on_device = false};

class Choosing : public testing::Test {
protected:
  RouteChoice &choose(RouteWishes wishes = {}) {
    choice = std::make_unique<RouteChoice>(fakes.routes(), std::move(wishes));
    return *choice;
  }
  // The route of the import; else "error: …".
  std::string import() {
    auto import = choice->import(source, fakes.check());
    if (!import) return "error: " + import.error().message();
    last = import.take();
    return dynamic_cast<FakeImport &>(*last).route;
  }
  const RouteReport &report(const std::string &name) {
    for (const RouteReport &r : choice->reports())
      if (r.route == name) return r;
    std::abort();
  }
  std::string stages() {
    std::string text;
    for (const RouteReport &r : choice->reports())
      text += (text.empty() ? "" : " ") + r.route + "=" + routeStageName(r.stage);
    return text;
  }
  std::string chosen() { return choice->chosen() ? choice->chosen()->name() : "none"; }

  ImportSource source = nv12(1920, 1080, 1920);
  Fakes fakes;
  std::unique_ptr<RouteChoice> choice;
  std::shared_ptr<DeviceImport> last;
};

struct Case {
  const char *name;
  std::vector<FakeBehaviour> routes;
  RouteWishes wishes;
  const char *route; // what the import takes; null: an error
  bool trusted;
  const char *stages;
};

TEST_F(Choosing, TheFirstThatWorksAndIsRight) {
  const FakeBehaviour a{.name = "a"}, b{.name = "b"}, c{.name = "c"};
  const auto with = [](FakeBehaviour x, auto change) {
    change(x);
    return x;
  };
  const auto missing = [&](const FakeBehaviour &x) { return with(x, [](auto &y) { y.available = false; }); };
  const auto refusing = [&](const FakeBehaviour &x) { return with(x, [](auto &y) { y.refuses = true; }); };
  const auto wrong = [&](const FakeBehaviour &x) {
    return with(x, [](auto &y) { y.content = ContentVerdict::Different; });
  };
  const auto unsure = [&](const FakeBehaviour &x) {
    return with(x, [](auto &y) { y.content = ContentVerdict::Undecided; });
  };
  const auto dead = [&](const FakeBehaviour &x) { return with(x, [](auto &y) { y.unreadable = true; }); };

  const Case cases[] = {
      {"the first", {a, b, c}, {}, "a", true, "a=chosen b=not-tried c=not-tried"},
      {"missing", {missing(a), b, c}, {}, "b", true, "a=unavailable b=chosen c=not-tried"},
      {"refusing", {refusing(a), b, c}, {}, "b", true, "a=refused-buffer b=chosen c=not-tried"},
      {"wrong", {wrong(a), b, c}, {}, "b", true, "a=wrong-content b=chosen c=not-tried"},
      {"cannot be read", {dead(a), b}, {}, "b", true, "a=refused-buffer b=chosen"},
      {"each another reason",
       {missing(a), refusing(b), wrong(c), {.name = "d"}},
       {},
       "d",
       true,
       "a=unavailable b=refused-buffer c=wrong-content d=chosen"},
      {"nobody can tell yet", {unsure(a), b}, {}, "a", false, "a=chosen b=not-tried"},
      {"copies by the device are taken",
       {refusing(a), kBridge, kCopy},
       {},
       "bridge",
       true,
       "a=refused-buffer bridge=chosen copy=not-allowed"},
      {"copies by the CPU are not", {refusing(a), kCopy}, {}, nullptr, false, "a=refused-buffer copy=not-allowed"},
      {"unless allowed", {refusing(a), kCopy}, {.allow_copy = true}, "copy", true, "a=refused-buffer copy=chosen"},
      {"not even then first", {a, kCopy}, {.allow_copy = true}, "a", true, "a=chosen copy=not-tried"},
      {"named", {a, b, c}, {.route = "c"}, "c", true, "a=not-allowed b=not-allowed c=chosen"},
      {"a named copy needs no permission", {a, kCopy}, {.route = "copy"}, "copy", true, "a=not-allowed copy=chosen"},
      {"named and refusing",
       {refusing(a), b},
       {.route = "a", .allow_copy = true},
       nullptr,
       false,
       "a=refused-buffer b=not-allowed"},
      {"named and wrong", {wrong(a), b}, {.route = "a"}, nullptr, false, "a=wrong-content b=not-allowed"},
      {"named and missing", {missing(a), b}, {.route = "a"}, nullptr, false, "a=unavailable b=not-allowed"},
      {"unknown", {a, b}, {.route = "z"}, nullptr, false, "a=not-allowed b=not-allowed"},
      {"none at all", {}, {}, nullptr, false, ""},
  };
  for (const Case &test : cases) {
    SCOPED_TRACE(test.name);
    fakes.all.clear();
    for (const FakeBehaviour &behaviour : test.routes) fakes.add(behaviour);
    choose(test.wishes);
    EXPECT_FALSE(choice->takeChanged());
    const std::string route = import();
    if (test.route != nullptr) {
      EXPECT_EQ(route, test.route);
      EXPECT_EQ(chosen(), test.route);
    } else {
      EXPECT_EQ(route.substr(0, 6), "error:");
      EXPECT_EQ(chosen(), "none");
    }
    EXPECT_EQ(choice->trusted(), test.trusted);
    EXPECT_EQ(stages(), test.stages);
    EXPECT_EQ(choice->takeChanged(), test.route != nullptr);
    EXPECT_FALSE(choice->takeChanged()) << "once";
    last.reset();
    EXPECT_EQ(FakeImport::alive, 0) << "of those that were not taken";
  }
}

TEST_F(Choosing, RoutesBehindTheChosenOneAreNotEvenAsked) {
  fakes.add({.name = "a"});
  FakeBehaviour &b = fakes.add({.name = "b"});
  choose();
  import();
  EXPECT_EQ(b.asked + b.imports, 0);
}

TEST_F(Choosing, ReasonsAreWhatTheRoutesSaid) {
  fakes.add({.name = "a", .available = false});
  fakes.add({.name = "b", .refuses = true});
  fakes.add({.name = "c", .content = ContentVerdict::Different});
  fakes.add({.name = "d", .content = ContentVerdict::Undecided});
  fakes.add(kCopy);
  choose();
  EXPECT_EQ(import(), "d");
  EXPECT_EQ(report("a").reason, "a is missing. Install it");
  EXPECT_EQ(report("b").reason, "b refuses: Invalid argument (22)");
  EXPECT_NE(report("c").reason.find("byte 2097152"), std::string::npos) << report("c").reason;
  EXPECT_EQ(report("d").reason, "all black");
  EXPECT_NE(report("copy").reason.find("not allowed"), std::string::npos);
}

TEST_F(Choosing, TheErrorListsAllAndSaysWhatToDo) {
  fakes.add({.name = "a", .available = false});
  fakes.add({.name = "b", .refuses = true});
  fakes.add({.name = "c", .content = ContentVerdict::Different});
  FakeBehaviour &copy = fakes.add(kCopy);
  choose();
  std::string error = import();
  for (const char *part :
       {"NV12 linear 1920x1080", "a (unavailable): a is missing", "b (refused-buffer): b refuses",
        "c (wrong-content): the device sees other pixels", "copy (not-allowed)", "Set allow-copy=true"})
    EXPECT_NE(error.find(part), std::string::npos) << part << " in: " << error;

  choose({.way_out = "Set something-else"}); // of an element without the property
  error = import();
  EXPECT_NE(error.find("Set something-else, or let upstream"), std::string::npos) << error;
  EXPECT_EQ(error.find("allow-copy"), std::string::npos) << error;

  copy.refuses = true;
  choose({.allow_copy = true});
  error = import();
  EXPECT_EQ(error.find("allow-copy"), std::string::npos) << error;
  EXPECT_NE(error.find("dmabufupload"), std::string::npos) << error;

  choose({.route = "b"});
  error = import();
  EXPECT_NE(error.find("b (refused-buffer)"), std::string::npos) << error;
  EXPECT_NE(error.find("route=auto"), std::string::npos) << error;
  EXPECT_EQ(error.find("a ("), std::string::npos) << "nobody asked for the others: " << error;

  choose({.route = "host-copy"});
  error = import();
  EXPECT_NE(error.find("no route \"host-copy\": set route to one of auto, a, b, c, copy"), std::string::npos) << error;
}

TEST_F(Choosing, TrustedContentIsNotCheckedAgain) {
  FakeBehaviour &a = fakes.add({.name = "a"});
  choose();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(import(), "a");
  EXPECT_EQ(a.checks, 1);
  EXPECT_EQ(a.asked, 1);
  EXPECT_EQ(a.imports, 5);
}

TEST_F(Choosing, ItIsCheckedUntilItTells) {
  FakeBehaviour &a = fakes.add({.name = "a", .content = ContentVerdict::Undecided});
  choose();
  for (int i = 0; i < 3; ++i) import();
  EXPECT_EQ(a.checks, 3);
  EXPECT_FALSE(choice->trusted());
  choice->takeChanged();
  a.content = ContentVerdict::Same;
  import();
  EXPECT_TRUE(choice->trusted());
  EXPECT_TRUE(choice->takeChanged());
  EXPECT_EQ(report("a").reason, "");
  import();
  EXPECT_EQ(a.checks, 4);
}

TEST_F(Choosing, WrongContentLaterIsFoundAndNeverAgain) {
  FakeBehaviour &a = fakes.add({.name = "a", .content = ContentVerdict::Undecided});
  fakes.add({.name = "b"});
  choose();
  EXPECT_EQ(import(), "a");
  a.content = ContentVerdict::Different;
  EXPECT_EQ(import(), "b");
  EXPECT_EQ(stages(), "a=wrong-content b=chosen");
  a.content = ContentVerdict::Same;
  const int imports = a.imports;
  EXPECT_EQ(import(), "b");
  fakes["b"].refuses = true;
  EXPECT_EQ(import().substr(0, 6), "error:");
  EXPECT_EQ(a.imports, imports);
  EXPECT_EQ(stages(), "a=wrong-content b=refused-buffer");
}

TEST_F(Choosing, AnImportIsAskedAboutAgain) {
  FakeBehaviour &a = fakes.add({.name = "a", .content = ContentVerdict::Undecided});
  choose();
  import();
  const ImportRoute *const route = choice->chosen();
  choice->takeChanged();
  EXPECT_TRUE(choice->stillRight(route, source, *last, fakes.check()));
  EXPECT_FALSE(choice->takeChanged());
  a.unreadable = true;
  EXPECT_TRUE(choice->stillRight(route, source, *last, fakes.check())) << "nobody knows better";
  a.unreadable = false;
  a.content = ContentVerdict::Same;
  EXPECT_TRUE(choice->stillRight(route, source, *last, fakes.check()));
  EXPECT_TRUE(choice->trusts(route) && choice->trusted());
  EXPECT_TRUE(choice->takeChanged());
  EXPECT_EQ(report("a").reason, "");
  const int checks = a.checks;
  EXPECT_TRUE(choice->stillRight(route, source, *last, fakes.check()));
  EXPECT_EQ(a.checks, checks) << "it is known";
}

TEST_F(Choosing, AnImportThatTurnsOutWrongTakesItsRouteAlong) {
  FakeBehaviour &a = fakes.add({.name = "a", .content = ContentVerdict::Undecided});
  choose();
  import();
  const ImportRoute *const route = choice->chosen();
  choice->takeChanged();
  a.content = ContentVerdict::Different;
  EXPECT_FALSE(choice->stillRight(route, source, *last, fakes.check()));
  EXPECT_EQ(chosen(), "none");
  EXPECT_TRUE(choice->takeChanged());
  EXPECT_EQ(stages(), "a=wrong-content");
  const int checks = a.checks;
  EXPECT_FALSE(choice->stillRight(route, source, *last, fakes.check()));
  EXPECT_EQ(a.checks, checks);
  EXPECT_EQ(import().substr(0, 6), "error:");
}

TEST_F(Choosing, ARouteThatHasAnotherWayGetsASecondChance) {
  FakeBehaviour &a =
      fakes.add({.name = "a", .content = ContentVerdict::Different, .after_retreat = ContentVerdict::Same});
  fakes.add({.name = "b"});
  choose();
  EXPECT_EQ(import(), "a");
  EXPECT_EQ(a.checks, 2);
  EXPECT_TRUE(choice->trusted());
  EXPECT_EQ(FakeImport::alive, 1);

  // also when it is found out later
  a.content = a.after_retreat = ContentVerdict::Undecided;
  choose();
  EXPECT_EQ(import(), "a");
  const ImportRoute *const route = choice->chosen();
  a.content = ContentVerdict::Different;
  EXPECT_FALSE(choice->stillRight(route, source, *last, fakes.check()));
  EXPECT_EQ(import(), "a");
  a.content = ContentVerdict::Different;
  EXPECT_EQ(import(), "b") << "there is no third";
  EXPECT_EQ(stages(), "a=wrong-content b=chosen");
}

// Each route is trusted for itself.
TEST_F(Choosing, AnotherRouteIsCheckedAnew) {
  FakeBehaviour &a = fakes.add({.name = "a"}), &b = fakes.add({.name = "b", .content = ContentVerdict::Undecided});
  choose();
  import();
  EXPECT_TRUE(choice->trusted());
  a.refuses = true;
  EXPECT_EQ(import(), "b");
  EXPECT_EQ(b.checks, 1);
  EXPECT_FALSE(choice->trusted());
  a.refuses = false;
  EXPECT_EQ(import(), "a");
  EXPECT_TRUE(choice->trusted());
  EXPECT_EQ(a.checks, 1);
}

TEST_F(Choosing, ABufferThatTheUsualRouteRefusesGoesAnotherWay) {
  FakeBehaviour &never = fakes.add({.name = "never", .refuses = true});
  FakeBehaviour &usual = fakes.add({.name = "usual"});
  fakes.add({.name = "other"});
  choose();
  EXPECT_EQ(import(), "usual");
  usual.refuses = true;
  EXPECT_EQ(import(), "other");
  EXPECT_TRUE(choice->takeChanged());
  EXPECT_EQ(stages(), "never=refused-buffer usual=refused-buffer other=chosen");
  usual.refuses = false;
  EXPECT_EQ(import(), "usual") << "the next is an ordinary one again";
  EXPECT_TRUE(choice->takeChanged());
  EXPECT_EQ(stages(), "never=refused-buffer usual=chosen other=not-tried");
  never.refuses = false;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(import(), "usual");
  EXPECT_EQ(never.imports, 0) << "it refused the first buffer, and something works";
}

TEST_F(Choosing, RoutesThatRefusedAreAskedWhenNothingElseIsLeft) {
  FakeBehaviour &a = fakes.add({.name = "a", .refuses = true}), &b = fakes.add({.name = "b"});
  choose();
  EXPECT_EQ(import(), "b");
  a.refuses = false;
  b.refuses = true;
  EXPECT_EQ(import(), "a");
}

TEST_F(Choosing, WhatIsMissingIsNotAskedForAgain) {
  FakeBehaviour &a = fakes.add({.name = "a", .available = false});
  choose();
  import();
  import();
  EXPECT_EQ(a.asked, 1);
}

TEST_F(Choosing, RoutesMayLayOutTheFrameDifferently) {
  FakeBehaviour &a = fakes.add({.name = "a"});
  fakes.add({.name = "b", .pitch = 2048});
  choose();
  import();
  EXPECT_EQ(last->planes[0].pitch, 1920u);
  a.refuses = true;
  import();
  EXPECT_EQ(last->planes[0].pitch, 2048u);
}

TEST_F(Choosing, FramesThatCannotBeAreRefusedBeforeAnyRoute) {
  FakeBehaviour &a = fakes.add({.name = "a"});
  choose();
  source.planes[1].rows = 5000;
  EXPECT_NE(import().find("ends behind its end"), std::string::npos);
  EXPECT_EQ(a.asked + a.imports, 0);
  EXPECT_FALSE(choice->takeChanged());
}

TEST(RouteStageNames, AreDifferent) {
  std::vector<std::string> names;
  for (int stage = 0; stage <= static_cast<int>(RouteStage::Chosen); ++stage) {
    const std::string name = routeStageName(static_cast<RouteStage>(stage));
    for (const std::string &other : names) EXPECT_NE(name, other);
    names.push_back(name);
  }
}

} // namespace
