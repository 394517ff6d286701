#include "muzero/model/native/train_kernel.h"

namespace slot_step {

const TrainKernel train_kernel_base = train_kernel("base");

}  // namespace slot_step
