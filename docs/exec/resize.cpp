// A program for tiepoint: z-scored patches resized to 4 x 4, as the built-in method `resize`.
//   g++ -std=c++17 -O2 resize.cpp -o resize && tiepoint run exec:./resize --task hpatches/matching --data DIR
#include <cmath>

#include "tiepoint_exec.hpp"

constexpr int SIZE = 4;

// Weights (SIZE, side) of bicubic resampling with Keys' kernel (a = -1/2), mirrored at the border.
std::vector<double> weights(int side) {
    std::vector<double> w(SIZE * side, 0.0);
    for (int i = 0; i < SIZE; ++i) {
        const double centre = (i + 0.5) * side / SIZE - 0.5;
        const int first = static_cast<int>(std::floor(centre - 2)) + 1;
        double sum = 0;
        for (int at = first; at < first + 4; ++at) {
            const double x = std::abs(centre - at);
            const double value = x <= 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
            int inside = at < 0 ? -1 - at : at >= side ? 2 * side - 1 - at : at;
            inside = std::min(std::max(inside, 0), side - 1);
            w[i * side + inside] += value;
            sum += value;
        }
        for (int k = 0; k < side; ++k) w[i * side + k] /= sum;
    }
    return w;
}

void describe(const unsigned char* patch, int side, const std::vector<double>& w, float* out) {
    const int n = side * side;
    double mean = 0, squares = 0;
    for (int i = 0; i < n; ++i) mean += patch[i];
    mean /= n;
    for (int i = 0; i < n; ++i) squares += (patch[i] - mean) * (patch[i] - mean);
    const double deviation = std::sqrt(squares / (n - 1));
    std::vector<double> rows(SIZE * side, 0.0);
    for (int r = 0; r < SIZE; ++r)
        for (int y = 0; y < side; ++y)
            for (int x = 0; x < side; ++x) {
                const float z = deviation > 0 ? static_cast<float>((patch[y * side + x] - mean) / deviation) : 0.0f;
                rows[r * side + x] += w[r * side + y] * z;
            }
    double small[SIZE][SIZE], length = 0;
    for (int r = 0; r < SIZE; ++r)
        for (int c = 0; c < SIZE; ++c) {
            small[r][c] = 0;
            for (int x = 0; x < side; ++x) small[r][c] += rows[r * side + x] * w[c * side + x];
            length += small[r][c] * small[r][c];
        }
    for (int c = 0; c < SIZE; ++c)  // column by column
        for (int r = 0; r < SIZE; ++r) *out++ = static_cast<float>(length > 0 ? small[r][c] / std::sqrt(length) : 0);
}

int main() {
    const std::string greeting = R"({"protocol": 1, "families": ["patches"], "name": "resize-cpp"})";
    return tiepoint::serve(greeting, [](const tiepoint::Request&, const tiepoint::Arrays& given) {
        const tiepoint::Array& patches = given.at("patches");
        const std::size_t count = patches.shape[0];
        const int side = static_cast<int>(patches.shape[1]);
        const std::vector<double> w = weights(side);
        tiepoint::Array out = tiepoint::zeros("<f4", {count, SIZE * SIZE});
        for (std::size_t i = 0; i < count; ++i)
            describe(patches.data<unsigned char>() + i * side * side, side, w, out.data<float>() + i * SIZE * SIZE);
        return tiepoint::Arrays{{"descriptors", out}};
    });
}
