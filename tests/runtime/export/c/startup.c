/* From reset to newlib's own start, which opens the semihosting streams and calls main. */
#include <stdint.h>

extern uint32_t __stack;
void _start(void);
void reset(void);

void reset(void)
{
    /* Coprocessors 10 and 11 are the floating point unit, where there is one. */
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20;
    __asm volatile("dsb\n\tisb");
    _start();
}

static void hang(void)
{
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {&__stack, {reset, hang, hang, hang, hang, hang}};
