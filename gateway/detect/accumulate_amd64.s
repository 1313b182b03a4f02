#include "textflag.h"

// func accumulateWide(sums *[lanes]float32, w *float32, rows *int32, xs *float32, n int)
//
// Y0 to Y7 hold the sums, Y8 the number in every place, Y9 to Y12 products. Products are
// rounded before they are added: without that the sums would be others than
// elsewhere.
TEXT ·accumulateWide(SB), NOSPLIT, $0-40
	MOVQ sums+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ rows+16(FP), R8
	MOVQ xs+24(FP), R9
	MOVQ n+32(FP), CX

	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

next:
	MOVLQSX      (R8), AX
	LEAQ         (SI)(AX*4), BX
	VBROADCASTSS (R9), Y8
	VMULPS 0(BX), Y8, Y9
	VMULPS 32(BX), Y8, Y10
	VMULPS 64(BX), Y8, Y11
	VMULPS 96(BX), Y8, Y12
	VADDPS Y9, Y0, Y0
	VADDPS Y10, Y1, Y1
	VADDPS Y11, Y2, Y2
	VADDPS Y12, Y3, Y3
	VMULPS 128(BX), Y8, Y9
	VMULPS 160(BX), Y8, Y10
	VMULPS 192(BX), Y8, Y11
	VMULPS 224(BX), Y8, Y12
	VADDPS Y9, Y4, Y4
	VADDPS Y10, Y5, Y5
	VADDPS Y11, Y6, Y6
	VADDPS Y12, Y7, Y7
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  next

	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	VZEROUPPER
	RET
