#include "textflag.h"

// func runWide(b []byte) (n int, high uint32)
//
// Y0, Y1 and Y2 hold the quote, the backslash and the last control character in
// every byte, Y3 the bytes passed, joined by or. Of 32 bytes at a time (Y4), Y5
// marks those that end a run.
TEXT ·runWide(SB), NOSPLIT, $0-36
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	XORQ AX, AX

	MOVL $0x22222222, DX
	VMOVD DX, X0
	VPBROADCASTD X0, Y0
	MOVL $0x5c5c5c5c, DX
	VMOVD DX, X1
	VPBROADCASTD X1, Y1
	MOVL $0x1f1f1f1f, DX
	VMOVD DX, X2
	VPBROADCASTD X2, Y2
	VPXOR Y3, Y3, Y3

	SUBQ $32, CX

next:
	CMPQ AX, CX
	JGT  end
	VMOVDQU  (SI)(AX*1), Y4
	VPCMPEQB Y4, Y0, Y5
	VPCMPEQB Y4, Y1, Y6
	VPMINUB  Y4, Y2, Y7
	VPCMPEQB Y4, Y7, Y7
	VPOR     Y6, Y5, Y5
	VPOR     Y7, Y5, Y5
	VPMOVMSKB Y5, DX
	TESTL    DX, DX
	JNZ      found
	VPOR     Y4, Y3, Y3
	ADDQ     $32, AX
	JMP      next

found: // of the bytes in Y4 only those before the first marked one were passed
	BSFL DX, CX
	VPMOVMSKB Y4, DX
	MOVL $1, BX
	SHLL CX, BX
	SUBL $1, BX
	ANDL BX, DX
	ADDQ CX, AX
	VPMOVMSKB Y3, BX
	ORL  BX, DX
	JMP  back

end:
	VPMOVMSKB Y3, DX

back:
	VZEROUPPER
	MOVQ AX, n+24(FP)
	MOVL DX, high+32(FP)
	RET
