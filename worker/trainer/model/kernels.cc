#include "evenstep/trainer/kernels.h"

#include <ATen/Parallel.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

#include "worker/trainer/model/device_kernels.h"

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows of one task; enough work to be worth a thread.
constexpr int64_t kRowGrain = 64;

// Calls body with a value of the tensor's element type.
template <typename Body>
void Dispatch(const at::Tensor& like, const Body& body) {
  if (like.scalar_type() == at::kDouble) {
    body(double{});
  } else {
    TORCH_CHECK(like.scalar_type() == at::kFloat, "float32 or float64");
    body(float{});
  }
}

// What values of this type are computed in.
at::ScalarType ComputeType(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
at::Tensor Computable(const at::Tensor& x) {
  return x.to(ComputeType(x.scalar_type())).contiguous();
}

class EmbedFunction : public torch::autograd::Function<EmbedFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight_VW,
                            const at::Tensor& tokens_T) {
    ctx->save_for_backward({tokens_T});
    ctx->saved_data["rows"] = weight_VW.size(0);
    return at::embedding(weight_VW, tokens_T);
  }
  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    constexpr int64_t kNoPadding = -1;
    return {at::embedding_dense_backward(
                Computable(gradients[0]), ctx->get_saved_variables()[0],
                ctx->saved_data["rows"].toInt(), kNoPadding,
                /*scale_grad_by_freq=*/false),
            at::Tensor()};
  }
};

// Sum of term(i) over [0, count), in lanes that the compiler can vectorise.
template <typename T, typename Term>
T LaneSum(int64_t count, const Term& term) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  T sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <typename T>
void NormRows(const T* x, const T* weight, T epsilon, int64_t rows,
              int64_t width, T* out, T* inverse) {
  at::parallel_for(0, rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* in = x + r * width;
      T* to = out + r * width;
      const T square =
          LaneSum<T>(width, [in](int64_t i) { return in[i] * in[i]; });
      const T scale =
          T{1} / std::sqrt(square / static_cast<T>(width) + epsilon);
      inverse[r] = scale;
      for (int64_t i = 0; i < width; ++i) to[i] = in[i] * scale * weight[i];
    }
  });
}

// With n = x * inverse, g = dout * weight: dx = inverse (g - n mean(g n)), and
// dweight = sum over rows of dout * n.
template <typename T>
void NormRowsBackward(const T* x, const T* weight, const T* inverse,
                      const T* dout, int64_t rows, int64_t width, T* dx,
                      T* dweight) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * width;
    const T* grad = dout + r * width;
    T* to = dx + r * width;
    const T scale = inverse[r];
    const T dot = LaneSum<T>(
        width, [=](int64_t i) { return grad[i] * weight[i] * in[i]; });
    const T mean = dot * scale * scale / static_cast<T>(width);
    for (int64_t i = 0; i < width; ++i) {
      to[i] = scale * (grad[i] * weight[i] - in[i] * mean);
      dweight[i] += grad[i] * in[i] * scale;
    }
  }
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in,
                            const at::Tensor& weight_in, double epsilon) {
    const at::Tensor x = Computable(x_in);
    const at::Tensor weight = Computable(weight_in);
    at::Tensor out = at::empty_like(x);
    at::Tensor inverse = at::empty({x.size(0)}, x.options());
    Dispatch(x, [&](auto zero) {
      using T = decltype(zero);
      NormRows<T>(x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                  static_cast<T>(epsilon), x.size(0), x.size(1),
                  out.mutable_data_ptr<T>(), inverse.mutable_data_ptr<T>());
    });
    ctx->save_for_backward({x_in, weight_in, inverse});
    return out.to(x_in.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor dout = Computable(gradients[0]);
    const at::Tensor x = Computable(saved[0]);
    const at::Tensor weight = Computable(saved[1]);
    at::Tensor dx = at::empty_like(x);
    at::Tensor dweight = at::zeros_like(weight);
    Dispatch(dx, [&](auto zero) {
      using T = decltype(zero);
      NormRowsBackward<T>(
          x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
          saved[2].const_data_ptr<T>(), dout.const_data_ptr<T>(), dx.size(0),
          dx.size(1), dx.mutable_data_ptr<T>(), dweight.mutable_data_ptr<T>());
    });
    // The weight's gradient stays as it was summed.
    return {dx.to(saved[0].scalar_type()), dweight, at::Tensor()};
  }
};

// direction 1 rotates, -1 rotates back, which is also the gradient.
template <typename T>
void RotateRows(const T* x, const T* cos, const T* sin, T direction,
                int64_t tokens, int64_t heads, int64_t dim, T* out) {
  const int64_t half = dim / 2;
  at::parallel_for(0, tokens, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* c = cos + t * half;
      const T* s = sin + t * half;
      for (int64_t n = 0; n < heads; ++n) {
        const T* in = x + (t * heads + n) * dim;
        T* to = out + (t * heads + n) * dim;
        for (int64_t i = 0; i < half; ++i) {
          const T turned = direction * s[i];
          to[i] = in[i] * c[i] - in[i + half] * turned;
          to[i + half] = in[i + half] * c[i] + in[i] * turned;
        }
      }
    }
  });
}

at::Tensor RotateTensor(const at::Tensor& x_in, const at::Tensor& cos,
                        const at::Tensor& sin, double direction) {
  const at::Tensor x = Computable(x_in);
  at::Tensor out = at::empty_like(x);
  Dispatch(x, [&](auto zero) {
    using T = decltype(zero);
    RotateRows<T>(x.const_data_ptr<T>(), cos.const_data_ptr<T>(),
                  sin.const_data_ptr<T>(), static_cast<T>(direction), x.size(0),
                  x.size(1), x.size(2), out.mutable_data_ptr<T>());
  });
  return out.to(x_in.scalar_type());
}

class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return RotateTensor(x, cos, sin, 1.0);
  }
  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    return {RotateTensor(gradients[0], saved[0], saved[1], -1.0), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor Embed(const at::Tensor& weight_VW, const at::Tensor& tokens_T) {
  return EmbedFunction::apply(weight_VW, tokens_T);
}

at::Tensor RmsNorm(const at::Tensor& x_TW, const at::Tensor& weight_W,
                   double epsilon) {
  if (!x_TW.is_cpu()) return RmsNormByOps(x_TW, weight_W, epsilon);
  return RmsNormFunction::apply(x_TW, weight_W, epsilon);
}

at::Tensor SwiGlu(const at::Tensor& gate_TM, const at::Tensor& up_TM) {
  return at::mul(at::silu(gate_TM), up_TM);
}

RotaryTable MakeRotaryTable(const at::Tensor& positions_T, int64_t dim,
                            double theta, at::ScalarType dtype) {
  if (!positions_T.is_cpu()) {
    return MakeRotaryTableByOps(positions_T, dim, theta, ComputeType(dtype));
  }
  const int64_t tokens = positions_T.size(0);
  const int64_t half = dim / 2;
  std::vector<double> frequency(half);
  for (int64_t i = 0; i < half; ++i) {
    frequency[i] = std::pow(
        theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  }
  RotaryTable table{at::empty({tokens, half}, ComputeType(dtype)),
                    at::empty({tokens, half}, ComputeType(dtype))};
  const int64_t* positions = positions_T.const_data_ptr<int64_t>();
  Dispatch(table.cos, [&](auto zero) {
    using T = decltype(zero);
    T* cos = table.cos.mutable_data_ptr<T>();
    T* sin = table.sin.mutable_data_ptr<T>();
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(positions[t]) * frequency[i];
        cos[t * half + i] = static_cast<T>(std::cos(angle));
        sin[t * half + i] = static_cast<T>(std::sin(angle));
      }
    }
  });
  return table;
}

at::Tensor Rotate(const at::Tensor& x_TND, const RotaryTable& table) {
  if (!x_TND.is_cpu()) return RotateByOps(x_TND, table);
  return RotateFunction::apply(x_TND, table.cos, table.sin);
}

}  // namespace evenstep::trainer
