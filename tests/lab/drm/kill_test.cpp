// SPDX-License-Identifier: LGPL-2.1-or-later
// A process that shows frames and is killed where it stands: the display is as usable for the next one as if nobody had
// used it.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <drm_fourcc.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xf86drm.h>

#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/screen.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48;

bool eventually(const std::function<bool()> &is) {
  for (int i = 0; i < 500; ++i, usleep(20000))
    if (is()) return true;
  return false;
}

// What debugfs says of a card's planes and CRTCs.
std::string stateOf(const std::string &card_path) {
  const std::string minor = card_path.substr(card_path.find_last_not_of("0123456789") + 1);
  std::ifstream file("/sys/kernel/debug/dri/" + minor + "/state");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Planes of the card with a framebuffer.
int activePlanes(const std::string &card_path) {
  std::istringstream lines(stateOf(card_path));
  int n = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("\tfb=");
    n += at != std::string::npos && line.substr(at + 4) != "0";
  }
  return n;
}

// gst-launch-1.0, in a process of its own.
class Victim {
public:
  explicit Victim(const std::string &pipeline) {
    std::vector<std::string> words{"gst-launch-1.0", "-q"};
    std::istringstream split(pipeline);
    for (std::string word; split >> word;) words.push_back(word);
    std::vector<char *> argv;
    for (std::string &word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawnp(&pid_, "gst-launch-1.0", nullptr, nullptr, argv.data(), environ), 0);
  }
  ~Victim() {
    if (pid_ > 0) kill();
  }
  // True: it was alive and ended by the signal.
  bool kill() {
    ::kill(pid_, SIGKILL);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  // Whether it holds the card open.
  bool has(const std::string &card_path) const {
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd", error))
      if (std::filesystem::read_symlink(entry, error) == card_path) return true;
    return false;
  }

private:
  pid_t pid_ = -1;
};

class Killed : public testing::TestWithParam<const char *> {};

TEST_P(Killed, TheDisplayIsTheNextOnes) {
  const auto found = cardPath("vkms");
  ASSERT_TRUE(found) << found.error().message();
  const std::string path = *found;
  auto opened = openCard("vkms");
  ASSERT_TRUE(opened) << opened.error().message();
  const UniqueFd console = opened.take(); // what was on the screen before, and waits for it to come back
  auto screen = Screen::find(console.get());
  ASSERT_TRUE(screen) << screen.error().message();
  auto picture = DumbFramebuffer::create(console.get(), kWidth, kHeight, DRM_FORMAT_XRGB8888);
  ASSERT_TRUE(picture) << picture.error().message();
  std::fill_n(picture->pixels(), size_t{picture->stride()} / 4 * kHeight, 0x00204060u);
  ASSERT_TRUE(screen->show(picture->id(), makeMode(kWidth, kHeight)));
  const int before = framebuffersOf(path); // this one, and what the kernel has for its console
  ASSERT_EQ(activePlanes(path), 1) << stateOf(path);
  ASSERT_EQ(drmDropMaster(console.get()), 0);

  {
    std::string pipeline = std::string(GetParam()) + " ! drmmodifiersink mode=64x48 device=" + path;
    if (const size_t card = pipeline.find("CARD"); card != std::string::npos) pipeline.replace(card, 4, path);
    Victim victim(pipeline);
    // frames come and go, on all its planes, in the place of the picture before
    const int planes = std::string(GetParam()).find("CARD") == std::string::npos ? 1 : 2;
    ASSERT_TRUE(eventually([&] {
      return framebuffersOf(path) >= before + 2 && activePlanes(path) == planes &&
             stateOf(path).find("allocated by = test-lab-drm-ki") == std::string::npos;
    })) << stateOf(path);
    ASSERT_TRUE(victim.has(path));
    EXPECT_NE(drmSetMaster(console.get()), 0) << "the victim is master";
    ASSERT_TRUE(victim.kill());
  }

  EXPECT_TRUE(eventually([&] { return framebuffersOf(path) == before; }))
      << "framebuffers stay: " << framebuffersOf(path);
  EXPECT_TRUE(eventually([&] { return activePlanes(path) == 0; })) << stateOf(path);
  // the one before has its screen back
  ASSERT_EQ(drmSetMaster(console.get()), 0);
  ASSERT_TRUE(screen->show(picture->id(), makeMode(kWidth, kHeight)));
  auto shown = captureWriteback(console.get());
  ASSERT_TRUE(shown) << shown.error().message();
  EXPECT_EQ(shown->at(10, 10), 0x204060u);
  ASSERT_EQ(drmDropMaster(console.get()), 0);

  // and so has the next sink
  {
    Player player(
        "videotestsrc num-buffers=10 ! video/x-raw,format=BGRx,width=64,height=48 ! drmmodifiersink name=sink "
        "mode=64x48 device=" +
        path);
    ASSERT_TRUE(player.play());
    EXPECT_TRUE(player.ended()) << player.errors();
    EXPECT_EQ(player.stat("busy-retries"), 0u) << "no flip of the dead process is waited for";
  }
  EXPECT_EQ(framebuffersOf(path), before);
  ASSERT_EQ(drmSetMaster(console.get()), 0);
  EXPECT_TRUE(screen->off());
}

INSTANTIATE_TEST_SUITE_P(
    Showing, Killed,
    testing::Values(
        "videotestsrc is-live=true ! video/x-raw,format=BGRx,width=64,height=48,framerate=60/1",
        "videotestsrc ! video/x-raw,format=NV12,width=64,height=48 ! dmabufupload",
        // on two planes
        "videotestsrc is-live=true ! video/x-raw,format=BGRx,width=64,height=48 ! drmmodifiersink mode=64x48 "
        "device=CARD videotestsrc is-live=true ! video/x-raw,format=BGRx,width=32,height=24"));

} // namespace
