#include "worker/trainer/model/modulation.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool HasLoops(const at::Tensor& x) {
  return x.is_cpu() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

// Calls body with a value of the tensor's element type.
template <typename Body>
void Dispatch(const at::Tensor& like, const Body& body) {
  if (like.scalar_type() == at::kDouble) {
    body(double{});
  } else {
    body(float{});
  }
}

// Tokens with the conditions that are theirs, as offsets into rows.
template <typename T>
struct Rows {
  const int64_t* condition;
  int64_t tokens;
  int64_t width;

  template <typename Body>
  void ForEach(const Body& body) const {
    for (int64_t t = 0; t < tokens; ++t) {
      body(t * width, condition[t] * width);
    }
  }
};

template <typename T>
Rows<T> RowsOf(const at::Tensor& x_TW, const at::Tensor& condition_T) {
  return {condition_T.const_data_ptr<int64_t>(), x_TW.size(0), x_TW.size(1)};
}

class ModulateFunction : public torch::autograd::Function<ModulateFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in,
                            const at::Tensor& scale_in,
                            const at::Tensor& shift_in,
                            const at::Tensor& condition_T) {
    const at::Tensor x = x_in.contiguous();
    const at::Tensor scale = scale_in.contiguous();
    const at::Tensor shift = shift_in.contiguous();
    at::Tensor out = at::empty_like(x);
    Dispatch(x, [&](auto zero) {
      using T = decltype(zero);
      const T* from = x.const_data_ptr<T>();
      const T* factor = scale.const_data_ptr<T>();
      const T* offset = shift.const_data_ptr<T>();
      T* to = out.mutable_data_ptr<T>();
      const Rows<T> rows = RowsOf<T>(x, condition_T);
      rows.ForEach([&](int64_t t, int64_t r) {
        for (int64_t i = 0; i < rows.width; ++i) {
          to[t + i] = from[t + i] * (1 + factor[r + i]) + offset[r + i];
        }
      });
    });
    ctx->save_for_backward({x, scale, condition_T});
    return out;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor dout = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(dout);
    at::Tensor dscale = at::zeros_like(saved[1]);
    at::Tensor dshift = at::zeros_like(saved[1]);
    Dispatch(dout, [&](auto zero) {
      using T = decltype(zero);
      const T* x = saved[0].const_data_ptr<T>();
      const T* factor = saved[1].const_data_ptr<T>();
      const T* from = dout.const_data_ptr<T>();
      T* to = dx.mutable_data_ptr<T>();
      T* to_scale = dscale.mutable_data_ptr<T>();
      T* to_shift = dshift.mutable_data_ptr<T>();
      const Rows<T> rows = RowsOf<T>(dout, saved[2]);
      rows.ForEach([&](int64_t t, int64_t r) {
        for (int64_t i = 0; i < rows.width; ++i) {
          to[t + i] = from[t + i] * (1 + factor[r + i]);
          to_scale[r + i] += from[t + i] * x[t + i];
          to_shift[r + i] += from[t + i];
        }
      });
    });
    return {dx, dscale, dshift, at::Tensor()};
  }
};

class GatedAddFunction : public torch::autograd::Function<GatedAddFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in,
                            const at::Tensor& y_in, const at::Tensor& gate_in,
                            const at::Tensor& condition_T) {
    const at::Tensor x = x_in.contiguous();
    const at::Tensor y = y_in.contiguous();
    const at::Tensor gate = gate_in.contiguous();
    at::Tensor out = at::empty_like(x);
    Dispatch(x, [&](auto zero) {
      using T = decltype(zero);
      const T* from = x.const_data_ptr<T>();
      const T* added = y.const_data_ptr<T>();
      const T* factor = gate.const_data_ptr<T>();
      T* to = out.mutable_data_ptr<T>();
      const Rows<T> rows = RowsOf<T>(x, condition_T);
      rows.ForEach([&](int64_t t, int64_t r) {
        for (int64_t i = 0; i < rows.width; ++i) {
          to[t + i] = from[t + i] + factor[r + i] * added[t + i];
        }
      });
    });
    ctx->save_for_backward({y, gate, condition_T});
    return out;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor dout = gradients[0].contiguous();
    at::Tensor dy = at::empty_like(dout);
    at::Tensor dgate = at::zeros_like(saved[1]);
    Dispatch(dout, [&](auto zero) {
      using T = decltype(zero);
      const T* y = saved[0].const_data_ptr<T>();
      const T* factor = saved[1].const_data_ptr<T>();
      const T* from = dout.const_data_ptr<T>();
      T* to = dy.mutable_data_ptr<T>();
      T* to_gate = dgate.mutable_data_ptr<T>();
      const Rows<T> rows = RowsOf<T>(dout, saved[2]);
      rows.ForEach([&](int64_t t, int64_t r) {
        for (int64_t i = 0; i < rows.width; ++i) {
          to[t + i] = from[t + i] * factor[r + i];
          to_gate[r + i] += from[t + i] * y[t + i];
        }
      });
    });
    return {dout, dy, dgate, at::Tensor()};
  }
};

// A row for every token.
at::Tensor RowsFor(const at::Tensor& rows_RW, const at::Tensor& condition_T) {
  return at::index_select(rows_RW, 0, condition_T);
}

// The gradient of RowsFor, summed in float32 at least.
at::Tensor SumByCondition(const at::Tensor& x_TW, const at::Tensor& rows_RW,
                          const at::Tensor& condition_T) {
  const at::ScalarType type =
      x_TW.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::zeros_like(rows_RW, rows_RW.options().dtype(type))
      .index_add_(0, condition_T, x_TW.to(type))
      .to(rows_RW.scalar_type());
}

// The same by torch's operators. Rows for every token are made again in
// backward and not kept.
class ModulateByOps : public torch::autograd::Function<ModulateByOps> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& scale, const at::Tensor& shift,
                            const at::Tensor& condition_T) {
    ctx->save_for_backward({x, scale, condition_T});
    return at::addcmul(RowsFor(shift, condition_T), x,
                       RowsFor(at::add(scale, 1), condition_T));
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& dout = gradients[0];
    const at::Tensor& scale = saved[1];
    const at::Tensor& condition_T = saved[2];
    return {at::mul(dout, RowsFor(at::add(scale, 1), condition_T)),
            SumByCondition(at::mul(dout, saved[0]), scale, condition_T),
            SumByCondition(dout, scale, condition_T), at::Tensor()};
  }
};

class GatedAddByOps : public torch::autograd::Function<GatedAddByOps> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& y, const at::Tensor& gate,
                            const at::Tensor& condition_T) {
    ctx->save_for_backward({y, gate, condition_T});
    return at::addcmul(x, RowsFor(gate, condition_T), y);
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& dout = gradients[0];
    const at::Tensor& gate = saved[1];
    const at::Tensor& condition_T = saved[2];
    return {dout, at::mul(dout, RowsFor(gate, condition_T)),
            SumByCondition(at::mul(dout, saved[0]), gate, condition_T),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor Modulate(const at::Tensor& x_TW, const at::Tensor& scale_RW,
                    const at::Tensor& shift_RW, const at::Tensor& condition_T) {
  if (HasLoops(x_TW)) {
    return ModulateFunction::apply(x_TW, scale_RW, shift_RW, condition_T);
  }
  return ModulateByOps::apply(x_TW, scale_RW, shift_RW, condition_T);
}

at::Tensor GatedAdd(const at::Tensor& x_TW, const at::Tensor& y_TW,
                    const at::Tensor& gate_RW, const at::Tensor& condition_T) {
  if (HasLoops(x_TW)) {
    return GatedAddFunction::apply(x_TW, y_TW, gate_RW, condition_T);
  }
  return GatedAddByOps::apply(x_TW, y_TW, gate_RW, condition_T);
}

}  // namespace evenstep::trainer
