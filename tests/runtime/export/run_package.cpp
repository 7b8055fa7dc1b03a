// Scores of a forest by libtorch: run_package model.pt2 rows.f32 N_FEATURES > scores.txt
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: run_package model.pt2 rows.f32 N_FEATURES\n";
    return 2;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const int64_t n_features = std::stoll(argv[3]);
  const int64_t n_rows = bytes.size() / sizeof(float) / n_features;
  const auto rows = torch::from_blob(const_cast<char*>(bytes.data()), {n_rows, n_features}).clone();

  c10::InferenceMode guard;
  torch::inductor::AOTIModelPackageLoader loader(argv[1]);
  const auto raw = loader.run({rows})[0].to(torch::kFloat64).contiguous();

  std::cout << std::hexfloat;  // every bit of each score
  for (int64_t i = 0; i < raw.numel(); ++i) std::cout << raw.data_ptr<double>()[i] << '\n';
}
