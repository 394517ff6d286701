#include "muzero/model/native/train_kernel.h"

namespace slot_step {

const TrainKernel train_kernel_avx2 = train_kernel("avx2");

}  // namespace slot_step
