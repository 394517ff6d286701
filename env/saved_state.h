// Saved tables: the bytes of a state behind a header that names their game, number of players and rules, and a
// checksum.
#pragma once

#include <algorithm>

#include "env/game.h"

namespace env {

// Deal that a table plays, and the number of its episodes that came before.
struct Origin {
  uint64_t seed, deal, episode;
};

template <class Game>
class SavedState {
 public:
  SavedState(const typename Game::Rules& rules, int players)
      : rules_(rules), players_(players), fingerprint_(rules_fingerprint(rules)) {}

  uint64_t fingerprint() const { return fingerprint_; }

  std::string write(const Game& game, const Origin& origin) const {
    Header header = expected_header();
    header.origin = origin;
    header.checksum = checksum(header, game);
    std::string blob(sizeof header + sizeof game, '\0');
    std::memcpy(blob.data(), &header, sizeof header);
    std::memcpy(blob.data() + sizeof header, &game, sizeof game);
    return blob;
  }

  // Fills in the state and its origin, or throws and leaves both alone.
  void read(const std::string& blob, Game& game, Origin& origin) const {
    const Header expected = expected_header();
    Header header;
    Game state;
    if (blob.size() != sizeof header + sizeof state) {
      refuse("expected " + std::to_string(sizeof header + sizeof state) + " bytes, got " + std::to_string(blob.size()));
    }
    std::memcpy(&header, blob.data(), sizeof header);
    std::memcpy(static_cast<void*>(&state), blob.data() + sizeof header, sizeof state);
    if (header.magic != expected.magic)
      refuse("it is not a saved table of " + std::string(Game::kName) + ", version " + std::to_string(Game::kVersion));
    if (header.players != expected.players)
      refuse("it has " + std::to_string(header.players) + " players, this environment " +
             std::to_string(expected.players));
    if (header.rules != expected.rules) refuse("it was saved under other rules");
    if (header.checksum != checksum(header, state)) refuse("the checksum does not match");
    const std::string problem = state.check(rules_, players_);
    if (!problem.empty()) refuse(problem);
    game = state;
    origin = header.origin;
  }

 private:
  static constexpr uint64_t kLayout = 2;  // counts the ways in which states of one game version were laid out

  struct Header {
    uint64_t magic, rules, players;
    Origin origin;
    uint64_t checksum;
  };

  [[noreturn]] static void refuse(const std::string& reason) {
    throw std::invalid_argument("saved state refused: " + reason);
  }

  Header expected_header() const {
    uint64_t magic = make_key({kLayout, Game::kVersion, sizeof(Game)});
    for (const char* c = Game::kName; *c; ++c) magic = make_key({magic, static_cast<uint64_t>(*c)});
    return {magic, fingerprint_, static_cast<uint64_t>(players_), {}, 0};
  }

  static uint64_t checksum(Header header, const Game& game) {
    header.checksum = 0;
    uint64_t hash = 0;
    const auto fold = [&hash](const void* data, size_t size) {
      const auto* bytes = static_cast<const unsigned char*>(data);
      for (size_t at = 0; at < size; at += 8) {
        uint64_t word = 0;
        std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
        hash = mix(hash + kGamma * (word + 1));
      }
    };
    fold(&header, sizeof header);
    fold(&game, sizeof game);
    return hash;
  }

  const typename Game::Rules& rules_;
  const int players_;
  const uint64_t fingerprint_;
};

}  // namespace env
