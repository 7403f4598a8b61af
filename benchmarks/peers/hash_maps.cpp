// Hash maps of C++ behind one C interface; groupby_cpp.py builds it once per map and aggregates.
//
//   g++ -O3 -march=native -std=c++17 -shared -fPIC -DMAP=1|2|3 -DFOUR=0|1 hash_maps.cpp
//
// Keys are string views into an arena of 1 MiB chunks: a key costs its own bytes, and nothing is ever moved.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#if MAP == 1
#include <unordered_map>
template <class V> using Map = std::unordered_map<std::string_view, V>;
#elif MAP == 2
#include <sparsehash/sparse_hash_map>
template <class V> using Map = google::sparse_hash_map<std::string_view, V, std::hash<std::string_view>>;
#elif MAP == 3
#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>
template <class V> using Map = absl::flat_hash_map<std::string_view, V>;
#endif

struct State {
    int64_t count = 0;
#if FOUR
    double sum = 0, least = 0, greatest = 0;
#endif
};

struct Groups {
    static constexpr size_t chunk_bytes = 1 << 20;
    Map<State> map;
    std::vector<std::unique_ptr<char[]>> chunks;
    size_t used = chunk_bytes;
    int64_t key_bytes = 0;

    std::string_view keep(std::string_view key) {
        if (used + key.size() > chunk_bytes) {
            chunks.emplace_back(new char[chunk_bytes]);
            used = 0;
        }
        char *place = chunks.back().get() + used;
        memcpy(place, key.data(), key.size());
        used += key.size();
        key_bytes += static_cast<int64_t>(key.size());
        return {place, key.size()};
    }

    State &at(std::string_view key) {
        auto found = map.find(key);
        if (found != map.end()) return found->second;
        return map.insert({keep(key), State{}}).first->second;
    }
};

extern "C" {
Groups *groups_new() { return new Groups; }
void groups_free(Groups *groups) { delete groups; }
int64_t groups_count(Groups *groups) { return static_cast<int64_t>(groups->map.size()); }
int64_t groups_key_bytes(Groups *groups) { return groups->key_bytes; }

void groups_insert(Groups *groups, const char *text, const int32_t *offsets, const double *values, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        std::string_view key(text + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row]));
        State &state = groups->at(key);
#if FOUR
        double value = values[row];
        if (state.count == 0) state.least = state.greatest = value;
        state.sum += value;
        if (value < state.least) state.least = value;
        if (value > state.greatest) state.greatest = value;
#else
        (void)values;
#endif
        state.count++;
    }
}

void groups_read(Groups *groups, char *text, int64_t *offsets, int64_t *counts, double *sums, double *least,
                 double *greatest) {
    int64_t row = 0, place = 0;
    offsets[0] = 0;
    for (const auto &[key, state] : groups->map) {
        memcpy(text + place, key.data(), key.size());
        place += static_cast<int64_t>(key.size());
        counts[row] = state.count;
#if FOUR
        sums[row] = state.sum, least[row] = state.least, greatest[row] = state.greatest;
#else
        (void)sums, (void)least, (void)greatest;
#endif
        offsets[++row] = place;
    }
}
}
