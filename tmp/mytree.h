


    // !!! This file is generated using emlearn !!!

    #include <stdint.h>
    

static inline int32_t mytree_tree_0(const float *features, int32_t features_length) {
          if (features[6] < 0.103300f) {
              if (features[2] < 107.450001f) {
                  if (features[0] < 17.215000f) {
                      if (features[27] < 0.148650f) {
                          if (features[12] < 4.118500f) {
                              if (features[23] < 869.299988f) {
                                  if (features[27] < 0.138100f) {
                                      return 1;
                                  } else {
                                      if (features[2] < 90.090000f) {
                                          return 1;
                                      } else {
                                          return 2;
                                      }
                                  }
                              } else {
                                  if (features[3] < 791.350006f) {
                                      if (features[25] < inff) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[7] < 0.028815f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[26] < 0.300850f) {
                              return 0;
                          } else {
                              if (features[19] < 0.002124f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[1] < 15.155000f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[6] < 0.131300f) {
                  if (features[20] < 16.270000f) {
                      if (features[1] < 23.800000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[28] < inff) {
                          return 0;
                      } else {
                          if (features[11] < 0.670200f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[0] < 12.640000f) {
                      if (features[12] < 3.759000f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      if (features[3] < 667.099976f) {
                          if (features[14] < 0.009691f) {
                              if (features[25] < 0.260250f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_1(const float *features, int32_t features_length) {
          if (features[22] < 105.250000f) {
              if (features[12] < 6.073500f) {
                  if (features[3] < 626.850006f) {
                      if (features[5] < 0.167100f) {
                          if (features[9] < 0.076805f) {
                              if (features[25] < 0.434000f) {
                                  if (features[22] < 102.200001f) {
                                      if (features[22] < 92.020000f) {
                                          return 1;
                                      } else {
                                          return 3;
                                      }
                                  } else {
                                      if (features[27] < 0.096695f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[23] < 694.699982f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[3] < 434.250000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[20] < 12.170000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[24] < 0.126100f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[20] < 17.340000f) {
                  if (features[1] < 20.680000f) {
                      if (features[3] < 491.750015f) {
                          return 0;
                      } else {
                          if (features[18] < inff) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[10] < 0.266900f) {
                          if (features[7] < inff) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[26] < 0.198100f) {
                      if (features[23] < 1214.000000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[14] < inff) {
                          return 0;
                      } else {
                          if (features[13] < 22.240000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_2(const float *features, int32_t features_length) {
          if (features[13] < 45.074999f) {
              if (features[6] < 0.097230f) {
                  if (features[2] < 96.855000f) {
                      if (features[1] < 19.615000f) {
                          if (features[29] < 0.126150f) {
                              if (features[19] < 0.001106f) {
                                  if (features[21] < 24.055000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 1;
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[20] < 15.815000f) {
                              if (features[2] < inff) {
                                  if (features[23] < 785.750000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[0] < 11.710000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[15] < 0.031585f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      }
                  } else {
                      if (features[20] < 17.450000f) {
                          return 1;
                      } else {
                          if (features[26] < 0.196150f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[21] < 20.835000f) {
                      if (features[27] < 0.169900f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[24] < 0.130350f) {
                          if (features[8] < 0.169450f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[22] < 116.750000f) {
                  if (features[5] < 0.117455f) {
                      return 0;
                  } else {
                      return 1;
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_3(const float *features, int32_t features_length) {
          if (features[3] < 694.500000f) {
              if (features[13] < 40.010000f) {
                  if (features[29] < 0.100500f) {
                      if (features[6] < 0.117100f) {
                          if (features[20] < 17.425000f) {
                              if (features[22] < 109.049999f) {
                                  if (features[24] < 0.187950f) {
                                      if (features[19] < 0.001314f) {
                                          return 4;
                                      } else {
                                          return 5;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[17] < 0.007640f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[7] < 0.053710f) {
                          if (features[20] < 16.005000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[19] < 0.009288f) {
                              if (features[28] < 0.263600f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      }
                  }
              } else {
                  if (features[27] < 0.113400f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[11] < 0.431400f) {
                  return 1;
              } else {
                  if (features[6] < 0.055995f) {
                      if (features[23] < 1031.000000f) {
                          if (features[12] < inff) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_4(const float *features, int32_t features_length) {
          if (features[27] < 0.142350f) {
              if (features[28] < 0.402950f) {
                  if (features[0] < 15.045000f) {
                      if (features[3] < 694.100006f) {
                          if (features[21] < 29.170000f) {
                              if (features[13] < 35.290001f) {
                                  if (features[5] < 0.115050f) {
                                      return 1;
                                  } else {
                                      if (features[7] < 0.056065f) {
                                          return 1;
                                      } else {
                                          return 6;
                                      }
                                  }
                              } else {
                                  if (features[27] < inff) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[12] < 3.015000f) {
                                  if (features[25] < 0.477250f) {
                                      if (features[11] < 0.868850f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[1] < 25.510000f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[10] < 0.362450f) {
                          if (features[18] < 0.012580f) {
                              return 0;
                          } else {
                              if (features[15] < 0.018655f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[1] < 16.395000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[0] < 11.025000f) {
                  if (features[2] < 71.815002f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[10] < 0.187200f) {
                      return 1;
                  } else {
                      if (features[23] < 821.250000f) {
                          if (features[23] < 804.699982f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_5(const float *features, int32_t features_length) {
          if (features[13] < 31.285000f) {
              if (features[20] < 16.514999f) {
                  if (features[3] < 703.550018f) {
                      if (features[25] < 0.504850f) {
                          if (features[27] < 0.160300f) {
                              if (features[27] < 0.122300f) {
                                  if (features[22] < 107.700001f) {
                                      if (features[11] < 2.097500f) {
                                          return 1;
                                      } else {
                                          return 7;
                                      }
                                  } else {
                                      if (features[0] < 14.445000f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  if (features[28] < 0.341050f) {
                                      if (features[2] < 94.110001f) {
                                          return 1;
                                      } else {
                                          return 8;
                                      }
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[14] < 0.007755f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[10] < 0.221600f) {
                      return 1;
                  } else {
                      if (features[21] < 18.505000f) {
                          if (features[18] < 0.019775f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[27] < 0.103400f) {
                  if (features[0] < 14.855000f) {
                      if (features[28] < 0.179600f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[19] < 0.001580f) {
                      return 1;
                  } else {
                      if (features[7] < 0.050405f) {
                          if (features[27] < 0.127500f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[20] < 16.775000f) {
                              if (features[13] < 40.904999f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_6(const float *features, int32_t features_length) {
          if (features[3] < 694.500000f) {
              if (features[0] < 15.010000f) {
                  if (features[7] < 0.050100f) {
                      if (features[26] < 0.438300f) {
                          if (features[12] < 2.810000f) {
                              if (features[8] < inff) {
                                  return 1;
                              } else {
                                  if (features[25] < 0.334000f) {
                                      if (features[0] < 13.360000f) {
                                          return 1;
                                      } else {
                                          return 9;
                                      }
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[22] < 107.849998f) {
                                  if (features[10] < 0.603450f) {
                                      return 1;
                                  } else {
                                      if (features[15] < 0.013975f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[19] < 0.006613f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[27] < 0.124400f) {
                          return 1;
                      } else {
                          if (features[3] < 420.399994f) {
                              return 1;
                          } else {
                              if (features[15] < 0.073315f) {
                                  if (features[23] < 672.550018f) {
                                      if (features[8] < 0.231000f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      if (features[21] < 20.355000f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[26] < inff) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          }
                      }
                  }
              } else {
                  if (features[10] < 0.224700f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[2] < 106.849998f) {
                  if (features[22] < 117.449997f) {
                      if (features[24] < 0.118500f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[8] < 0.126400f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_7(const float *features, int32_t features_length) {
          if (features[10] < 0.550050f) {
              if (features[23] < 874.850006f) {
                  if (features[22] < 101.649998f) {
                      if (features[25] < 0.407650f) {
                          if (features[21] < 33.269999f) {
                              return 1;
                          } else {
                              if (features[26] < 0.199400f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[0] < 13.850000f) {
                          if (features[12] < 3.231000f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[2] < 99.465000f) {
                              if (features[17] < 0.013140f) {
                                  return 1;
                              } else {
                                  if (features[19] < 0.003768f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[21] < 21.094999f) {
                                  return 1;
                              } else {
                                  if (features[18] < 0.011080f) {
                                      if (features[5] < 0.114615f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      }
                  }
              } else {
                  if (features[27] < 0.139600f) {
                      if (features[20] < inff) {
                          if (features[16] < 0.011995f) {
                              return 1;
                          } else {
                              if (features[11] < 0.464500f) {
                                  if (features[12] < 1.900000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[3] < 592.749985f) {
                  return 1;
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_8(const float *features, int32_t features_length) {
          if (features[23] < 822.549988f) {
              if (features[27] < 0.142400f) {
                  if (features[26] < 0.475500f) {
                      if (features[0] < 15.605000f) {
                          if (features[20] < 16.490000f) {
                              if (features[1] < 21.575000f) {
                                  if (features[11] < 2.086000f) {
                                      return 1;
                                  } else {
                                      if (features[12] < 4.114500f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[11] < 0.859600f) {
                                      return 0;
                                  } else {
                                      if (features[2] < 90.580002f) {
                                          return 1;
                                      } else {
                                          return 10;
                                      }
                                  }
                              }
                          } else {
                              if (features[8] < 0.180300f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[2] < 105.449997f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[23] < 710.200012f) {
                      if (features[8] < 0.206900f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[1] < 15.245000f) {
                  if (features[14] < 0.009290f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[7] < 0.027425f) {
                      return 1;
                  } else {
                      if (features[27] < 0.110700f) {
                          if (features[23] < 916.050018f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_9(const float *features, int32_t features_length) {
          if (features[7] < 0.055800f) {
              if (features[27] < 0.158400f) {
                  if (features[20] < 17.480000f) {
                      if (features[28] < 0.340200f) {
                          if (features[7] < 0.049230f) {
                              if (features[0] < 15.115000f) {
                                  if (features[10] < 0.625550f) {
                                      if (features[23] < 754.100006f) {
                                          return 1;
                                      } else {
                                          return 11;
                                      }
                                  } else {
                                      if (features[29] < 0.074620f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  if (features[13] < 33.025001f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[4] < 0.090210f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[5] < 0.164100f) {
                              if (features[3] < 561.849976f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[28] < 0.242300f) {
                          if (features[18] < 0.012270f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[25] < 0.149700f) {
                  if (features[1] < 18.670000f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[22] < 97.155003f) {
                      if (features[9] < inff) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[26] < 0.224200f) {
                          return 1;
                      } else {
                          if (features[16] < 0.252550f) {
                              if (features[10] < 0.187550f) {
                                  return 1;
                              } else {
                                  if (features[15] < 0.051830f) {
                                      return 0;
                                  } else {
                                      if (features[27] < 0.131800f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          } else {
                              return 1;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_10(const float *features, int32_t features_length) {
          if (features[27] < 0.142350f) {
              if (features[3] < 700.399994f) {
                  if (features[27] < 0.111000f) {
                      if (features[7] < 0.034990f) {
                          return 1;
                      } else {
                          if (features[25] < 0.113770f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[28] < 0.340600f) {
                          if (features[7] < 0.057210f) {
                              if (features[20] < 16.514999f) {
                                  if (features[3] < 660.550018f) {
                                      return 1;
                                  } else {
                                      if (features[23] < 760.399994f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  if (features[13] < 33.940001f) {
                                      if (features[29] < inff) {
                                          return 7;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      if (features[8] < 0.199150f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[26] < 0.324450f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[6] < 0.064210f) {
                      if (features[17] < 0.006723f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[9] < 0.079980f) {
                  if (features[10] < 0.286650f) {
                      if (features[27] < 0.171750f) {
                          if (features[14] < 0.007429f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[28] < 0.429700f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_11(const float *features, int32_t features_length) {
          if (features[10] < 0.517950f) {
              if (features[27] < 0.143500f) {
                  if (features[13] < 40.219999f) {
                      if (features[3] < 702.149994f) {
                          if (features[29] < 0.114850f) {
                              if (features[27] < 0.110850f) {
                                  return 1;
                              } else {
                                  if (features[2] < 89.945000f) {
                                      if (features[20] < 16.120000f) {
                                          return 12;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      if (features[11] < 1.481500f) {
                                          return 8;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          } else {
                              if (features[22] < 80.440002f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[21] < 25.645000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[17] < 0.007514f) {
                          return 1;
                      } else {
                          if (features[20] < 16.800000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[13] < 24.890000f) {
                      if (features[29] < 0.085690f) {
                          return 1;
                      } else {
                          if (features[21] < 19.770000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[23] < 676.049988f) {
                  return 1;
              } else {
                  if (features[19] < 0.021340f) {
                      if (features[20] < 16.910000f) {
                          if (features[6] < 0.027550f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      return 1;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_12(const float *features, int32_t features_length) {
          if (features[26] < 0.260500f) {
              if (features[22] < 127.200001f) {
                  if (features[12] < 6.342000f) {
                      if (features[13] < 44.450001f) {
                          if (features[18] < 0.016490f) {
                              if (features[18] < 0.016440f) {
                                  if (features[12] < 3.443500f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[1] < 19.315000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[10] < 0.475750f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[21] < 23.665000f) {
                  if (features[18] < 0.044900f) {
                      if (features[10] < 0.406500f) {
                          if (features[17] < 0.010132f) {
                              if (features[22] < 105.300003f) {
                                  return 1;
                              } else {
                                  if (features[24] < 0.116400f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[17] < 0.022550f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[7] < 0.051455f) {
                      if (features[23] < 816.149994f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[27] < 0.102290f) {
                          return 1;
                      } else {
                          if (features[19] < 0.011428f) {
                              if (features[26] < 0.319000f) {
                                  if (features[27] < 0.143050f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_13(const float *features, int32_t features_length) {
          if (features[13] < 40.010000f) {
              if (features[27] < 0.142350f) {
                  if (features[26] < 0.319000f) {
                      if (features[23] < 957.450012f) {
                          if (features[27] < 0.137000f) {
                              if (features[2] < 101.215000f) {
                                  return 1;
                              } else {
                                  if (features[24] < 0.116850f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[17] < 0.015893f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[23] < 998.799988f) {
                              return 0;
                          } else {
                              if (features[17] < 0.012865f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      if (features[20] < 14.855000f) {
                          return 1;
                      } else {
                          if (features[5] < 0.105800f) {
                              return 0;
                          } else {
                              if (features[24] < 0.136000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              } else {
                  if (features[7] < 0.049070f) {
                      return 1;
                  } else {
                      if (features[2] < 71.025002f) {
                          return 1;
                      } else {
                          if (features[4] < 0.082125f) {
                              return 1;
                          } else {
                              if (features[7] < 0.055670f) {
                                  if (features[19] < 0.002857f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[4] < 0.080220f) {
                  return 1;
              } else {
                  if (features[26] < 0.178200f) {
                      if (features[1] < 21.090000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[20] < 16.365000f) {
                          return 1;
                      } else {
                          if (features[22] < 114.899998f) {
                              if (features[15] < 0.042960f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_14(const float *features, int32_t features_length) {
          if (features[27] < 0.141900f) {
              if (features[2] < 98.755001f) {
                  if (features[13] < 38.415001f) {
                      if (features[21] < 30.145000f) {
                          if (features[14] < 0.005606f) {
                              if (features[14] < 0.005562f) {
                                  if (features[22] < 110.000000f) {
                                      return 1;
                                  } else {
                                      if (features[24] < 0.135250f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[27] < 0.131850f) {
                              if (features[21] < 30.305000f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[5] < 0.061620f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      if (features[9] < 0.060145f) {
                          return 0;
                      } else {
                          if (features[6] < 0.146000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[28] < 0.233450f) {
                      return 1;
                  } else {
                      if (features[1] < 18.835000f) {
                          if (features[28] < 0.259300f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[0] < 9.989500f) {
                  return 1;
              } else {
                  if (features[10] < 0.186100f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_15(const float *features, int32_t features_length) {
          if (features[23] < 874.850006f) {
              if (features[26] < 0.260100f) {
                  if (features[20] < 20.505000f) {
                      if (features[7] < 0.081705f) {
                          if (features[1] < 21.555000f) {
                              if (features[28] < inff) {
                                  return 1;
                              } else {
                                  if (features[3] < 431.500000f) {
                                      if (features[7] < 0.034325f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[29] < 0.057045f) {
                                  return 0;
                              } else {
                                  if (features[1] < 21.590000f) {
                                      return 0;
                                  } else {
                                      if (features[9] < 0.054225f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[2] < 89.945000f) {
                      if (features[28] < 0.355600f) {
                          return 1;
                      } else {
                          if (features[4] < 0.108600f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[11] < 0.558550f) {
                          return 1;
                      } else {
                          if (features[6] < 0.089375f) {
                              if (features[17] < 0.010583f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[28] < inff) {
                                  return 0;
                              } else {
                                  if (features[6] < 0.111450f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[6] < 0.056190f) {
                  if (features[7] < 0.037560f) {
                      if (features[14] < 0.004059f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 1;
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_16(const float *features, int32_t features_length) {
          if (features[22] < 112.799999f) {
              if (features[6] < 0.093200f) {
                  if (features[25] < 0.348550f) {
                      if (features[21] < 30.145000f) {
                          if (features[7] < 0.034575f) {
                              return 1;
                          } else {
                              if (features[10] < 0.583500f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[17] < 0.014700f) {
                              if (features[19] < 0.001314f) {
                                  return 0;
                              } else {
                                  if (features[12] < inff) {
                                      return 1;
                                  } else {
                                      if (features[23] < inff) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          } else {
                              if (features[12] < 2.536000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      if (features[20] < 15.430000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[23] < 710.200012f) {
                      if (features[21] < 30.864999f) {
                          return 1;
                      } else {
                          if (features[5] < 0.111950f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[21] < 18.620000f) {
                          return 1;
                      } else {
                          if (features[3] < 344.250000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          } else {
              if (features[7] < 0.050085f) {
                  if (features[17] < 0.010056f) {
                      if (features[18] < 0.012370f) {
                          return 0;
                      } else {
                          if (features[12] < 2.870000f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      return 1;
                  }
              } else {
                  if (features[5] < 0.096155f) {
                      if (features[22] < 118.850002f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_17(const float *features, int32_t features_length) {
          if (features[20] < 16.810000f) {
              if (features[0] < 15.160000f) {
                  if (features[26] < 0.379400f) {
                      if (features[6] < 0.082035f) {
                          if (features[24] < 0.113800f) {
                              if (features[12] < 4.118500f) {
                                  if (features[23] < 785.000000f) {
                                      return 1;
                                  } else {
                                      if (features[12] < 1.763000f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  if (features[17] < 0.015945f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[27] < 0.151300f) {
                              return 1;
                          } else {
                              if (features[7] < 0.055670f) {
                                  if (features[10] < 0.332800f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      if (features[4] < 0.108450f) {
                          if (features[21] < 27.485000f) {
                              return 1;
                          } else {
                              if (features[11] < 1.437500f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[6] < 0.081930f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[20] < 17.349999f) {
                  if (features[1] < 19.940000f) {
                      return 1;
                  } else {
                      if (features[10] < 0.269900f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[15] < 0.008689f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_18(const float *features, int32_t features_length) {
          if (features[0] < 15.110000f) {
              if (features[7] < 0.054100f) {
                  if (features[10] < 0.404050f) {
                      if (features[21] < 29.804999f) {
                          if (features[20] < 16.514999f) {
                              return 1;
                          } else {
                              if (features[7] < 0.042985f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[28] < 0.332550f) {
                              return 1;
                          } else {
                              if (features[25] < 0.337050f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      if (features[1] < 18.460000f) {
                          return 1;
                      } else {
                          if (features[6] < 0.076165f) {
                              if (features[19] < inff) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[26] < 0.227250f) {
                      return 1;
                  } else {
                      if (features[1] < 14.860000f) {
                          return 1;
                      } else {
                          if (features[27] < 0.131000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          } else {
              if (features[10] < 0.240300f) {
                  if (features[13] < 19.765000f) {
                      return 0;
                  } else {
                      return 1;
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_19(const float *features, int32_t features_length) {
          if (features[23] < 874.850006f) {
              if (features[2] < 106.700001f) {
                  if (features[25] < 0.385700f) {
                      if (features[13] < 48.995001f) {
                          if (features[1] < 22.384999f) {
                              if (features[24] < 0.187950f) {
                                  if (features[28] < inff) {
                                      return 1;
                                  } else {
                                      if (features[29] < 0.069755f) {
                                          return 13;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[29] < 0.078480f) {
                                  if (features[20] < 15.770000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[9] < 0.060960f) {
                                      return 0;
                                  } else {
                                      if (features[22] < 106.699997f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          }
                      } else {
                          if (features[18] < 0.033830f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[19] < 0.005948f) {
                          if (features[20] < 14.820000f) {
                              if (features[21] < inff) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[27] < 0.197900f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[6] < 0.072140f) {
                  if (features[11] < 0.835450f) {
                      if (features[12] < 1.434500f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      if (features[19] < 0.001574f) {
                          if (features[25] < 0.175850f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_20(const float *features, int32_t features_length) {
          if (features[22] < 106.200001f) {
              if (features[24] < 0.185150f) {
                  if (features[0] < 15.550000f) {
                      if (features[27] < 0.158900f) {
                          if (features[2] < 92.939999f) {
                              if (features[25] < 0.411350f) {
                                  if (features[24] < 0.114000f) {
                                      if (features[24] < 0.113250f) {
                                          return 14;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  if (features[24] < inff) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              if (features[27] < 0.122300f) {
                                  return 1;
                              } else {
                                  if (features[12] < 2.440500f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      } else {
                          if (features[9] < 0.077085f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[20] < 17.719999f) {
                  if (features[27] < 0.163600f) {
                      if (features[29] < 0.074300f) {
                          if (features[6] < 0.043955f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[10] < 0.564850f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[6] < 0.072140f) {
                      if (features[3] < 817.949982f) {
                          if (features[14] < 0.005882f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_21(const float *features, int32_t features_length) {
          if (features[7] < 0.048865f) {
              if (features[27] < 0.110850f) {
                  if (features[20] < 18.655000f) {
                      if (features[10] < 0.625550f) {
                          return 1;
                      } else {
                          if (features[7] < 0.031895f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[6] < 0.040470f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  }
              } else {
                  if (features[16] < 0.022305f) {
                      if (features[17] < 0.009777f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 1;
                  }
              }
          } else {
              if (features[0] < 13.570000f) {
                  if (features[22] < 97.490002f) {
                      if (features[28] < 0.385150f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[25] < 0.334250f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[20] < 17.035000f) {
                      if (features[25] < 0.310550f) {
                          if (features[5] < 0.116050f) {
                              if (features[23] < 787.900024f) {
                                  if (features[2] < inff) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      } else {
                          if (features[4] < 0.088920f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[6] < 0.072140f) {
                          if (features[13] < 34.460000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_22(const float *features, int32_t features_length) {
          if (features[27] < 0.142350f) {
              if (features[3] < 694.500000f) {
                  if (features[20] < 16.875000f) {
                      if (features[6] < 0.119600f) {
                          if (features[7] < 0.083195f) {
                              if (features[27] < inff) {
                                  if (features[12] < 4.114500f) {
                                      return 1;
                                  } else {
                                      if (features[23] < 467.249985f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[21] < 33.350000f) {
                                      if (features[22] < 106.349998f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[22] < 102.250000f) {
                              if (features[6] < 0.198100f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[23] < 809.050018f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[11] < 0.492300f) {
                      return 1;
                  } else {
                      if (features[9] < 0.052810f) {
                          if (features[22] < 124.750000f) {
                              if (features[5] < 0.095105f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[20] < 16.320000f) {
                  if (features[14] < 0.008282f) {
                      if (features[9] < 0.069090f) {
                          if (features[1] < 18.835000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      return 1;
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_23(const float *features, int32_t features_length) {
          if (features[20] < 17.750000f) {
              if (features[22] < 102.400002f) {
                  if (features[23] < 754.050018f) {
                      if (features[9] < 0.073480f) {
                          if (features[28] < 0.156550f) {
                              return 0;
                          } else {
                              if (features[6] < 0.103700f) {
                                  return 1;
                              } else {
                                  if (features[24] < 0.176950f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      } else {
                          if (features[22] < 80.405003f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[16] < 0.017785f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[27] < 0.147050f) {
                      if (features[20] < 15.365000f) {
                          if (features[14] < 0.005659f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[1] < 28.830000f) {
                              if (features[4] < inff) {
                                  return 1;
                              } else {
                                  if (features[24] < 0.124400f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[26] < 0.196500f) {
                          return 1;
                      } else {
                          if (features[4] < 0.084180f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          } else {
              if (features[8] < 0.126400f) {
                  return 1;
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_24(const float *features, int32_t features_length) {
          if (features[0] < 15.045000f) {
              if (features[29] < 0.105800f) {
                  if (features[20] < 16.810000f) {
                      if (features[7] < 0.074555f) {
                          if (features[21] < 29.674999f) {
                              if (features[7] < 0.049575f) {
                                  if (features[18] < 0.015775f) {
                                      if (features[10] < 0.546950f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  if (features[25] < 0.317550f) {
                                      return 1;
                                  } else {
                                      if (features[23] < 713.650024f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          } else {
                              if (features[26] < 0.342100f) {
                                  if (features[6] < 0.076245f) {
                                      if (features[6] < 0.046130f) {
                                          return 1;
                                      } else {
                                          return 15;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[6] < 0.066165f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[7] < 0.056185f) {
                      return 1;
                  } else {
                      if (features[11] < 2.387000f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  }
              }
          } else {
              if (features[21] < 16.295000f) {
                  return 1;
              } else {
                  if (features[26] < 0.231400f) {
                      if (features[10] < 0.319700f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_25(const float *features, int32_t features_length) {
          if (features[27] < 0.141700f) {
              if (features[20] < 17.450000f) {
                  if (features[25] < 0.487250f) {
                      if (features[20] < 16.800000f) {
                          if (features[7] < 0.080025f) {
                              if (features[12] < 6.436000f) {
                                  if (features[0] < 17.080000f) {
                                      if (features[18] < 0.017450f) {
                                          return 16;
                                      } else {
                                          return 1;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[11] < 0.774300f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[10] < 0.388300f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[9] < inff) {
                      return 0;
                  } else {
                      return 1;
                  }
              }
          } else {
              if (features[0] < 13.620000f) {
                  if (features[21] < 27.600000f) {
                      if (features[16] < 0.031765f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[7] < 0.050040f) {
                      return 1;
                  } else {
                      if (features[19] < 0.012140f) {
                          if (features[11] < 0.431400f) {
                              return 1;
                          } else {
                              if (features[13] < 21.945001f) {
                                  if (features[27] < 0.171300f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 1;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_26(const float *features, int32_t features_length) {
          if (features[3] < 694.500000f) {
              if (features[22] < 102.400002f) {
                  if (features[26] < 0.370300f) {
                      if (features[25] < 0.379250f) {
                          if (features[12] < 4.118500f) {
                              if (features[23] < 795.500000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[8] < 0.166650f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[0] < 12.560000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[21] < 32.065000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[27] < 0.138100f) {
                      if (features[10] < 0.379000f) {
                          if (features[26] < 0.323900f) {
                              if (features[19] < 0.001824f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[6] < 0.070275f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[19] < 0.002568f) {
                          return 1;
                      } else {
                          if (features[8] < 0.162900f) {
                              return 1;
                          } else {
                              if (features[24] < 0.139100f) {
                                  if (features[19] < inff) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[23] < 953.950012f) {
                  if (features[1] < 17.645000f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[22] < 120.350002f) {
                      if (features[15] < 0.010567f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_27(const float *features, int32_t features_length) {
          if (features[27] < 0.146950f) {
              if (features[12] < 3.035000f) {
                  if (features[3] < 764.950012f) {
                      if (features[6] < 0.073550f) {
                          if (features[24] < 0.185600f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[22] < 103.400002f) {
                              if (features[1] < inff) {
                                  return 1;
                              } else {
                                  if (features[8] < 0.192600f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[27] < 0.139850f) {
                                  if (features[24] < 0.118900f) {
                                      return 1;
                                  } else {
                                      if (features[4] < 0.086320f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  return 1;
                              }
                          }
                      }
                  } else {
                      if (features[10] < 0.243000f) {
                          return 1;
                      } else {
                          if (features[28] < 0.256500f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[2] < 103.260002f) {
                      if (features[20] < 16.660000f) {
                          if (features[25] < 0.082370f) {
                              return 0;
                          } else {
                              if (features[9] < 0.085750f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[1] < 19.719999f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[20] < 15.930000f) {
                  if (features[11] < 0.954200f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[26] < 0.778600f) {
                      return 0;
                  } else {
                      if (features[14] < 0.009187f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_28(const float *features, int32_t features_length) {
          if (features[20] < 16.800000f) {
              if (features[27] < 0.135950f) {
                  if (features[26] < 0.396900f) {
                      if (features[29] < 0.055125f) {
                          return 0;
                      } else {
                          if (features[23] < 806.300018f) {
                              return 1;
                          } else {
                              if (features[26] < 0.267900f) {
                                  return 1;
                              } else {
                                  if (features[26] < 0.321400f) {
                                      return 0;
                                  } else {
                                      if (features[3] < 652.149994f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          }
                      }
                  } else {
                      if (features[22] < 87.025002f) {
                          if (features[20] < 15.555000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[16] < 0.080420f) {
                      if (features[13] < 18.335000f) {
                          return 1;
                      } else {
                          if (features[7] < 0.051290f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 1;
                  }
              }
          } else {
              if (features[8] < 0.151150f) {
                  if (features[27] < 0.129900f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[13] < 24.875000f) {
                      if (features[15] < 0.024125f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[1] < 11.585000f) {
                          return 1;
                      } else {
                          if (features[11] < 0.436900f) {
                              if (features[19] < 0.002832f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_29(const float *features, int32_t features_length) {
          if (features[27] < 0.149050f) {
              if (features[22] < 113.149998f) {
                  if (features[27] < 0.134850f) {
                      if (features[3] < 704.850006f) {
                          if (features[23] < 884.250000f) {
                              if (features[9] < 0.055905f) {
                                  if (features[26] < 0.182450f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[6] < 0.070820f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[25] < 0.223700f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[4] < 0.101620f) {
                          if (features[6] < 0.045235f) {
                              return 1;
                          } else {
                              if (features[24] < 0.139850f) {
                                  if (features[28] < 0.253350f) {
                                      if (features[11] < 1.367500f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[22] < 98.100002f) {
                              return 1;
                          } else {
                              if (features[11] < 0.773500f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              } else {
                  if (features[22] < 127.200001f) {
                      if (features[29] < 0.066435f) {
                          return 1;
                      } else {
                          if (features[26] < 0.391800f) {
                              if (features[21] < 19.085000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[7] < 0.048170f) {
                  return 1;
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_30(const float *features, int32_t features_length) {
          if (features[10] < 0.418450f) {
              if (features[22] < 108.700001f) {
                  if (features[23] < 1061.500000f) {
                      if (features[26] < 0.396700f) {
                          if (features[28] < 0.424700f) {
                              if (features[13] < 32.984999f) {
                                  if (features[20] < inff) {
                                      return 1;
                                  } else {
                                      if (features[21] < 31.155000f) {
                                          return 1;
                                      } else {
                                          return 17;
                                      }
                                  }
                              } else {
                                  if (features[28] < 0.266450f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[22] < 99.759998f) {
                              if (features[26] < 0.440100f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[1] < 16.795000f) {
                      if (features[15] < 0.019425f) {
                          return 1;
                      } else {
                          if (features[4] < inff) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[26] < 0.196150f) {
                          if (features[18] < 0.018120f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[24] < 0.108050f) {
                              return 1;
                          } else {
                              if (features[9] < inff) {
                                  return 0;
                              } else {
                                  if (features[18] < 0.016020f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[26] < 0.201800f) {
                  if (features[25] < 0.051720f) {
                      return 0;
                  } else {
                      return 1;
                  }
              } else {
                  if (features[27] < 0.112200f) {
                      return 1;
                  } else {
                      if (features[15] < inff) {
                          if (features[23] < 677.799988f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[1] < 17.429999f) {
                              if (features[27] < 0.170600f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_31(const float *features, int32_t features_length) {
          if (features[6] < 0.093200f) {
              if (features[23] < 906.100006f) {
                  if (features[0] < 16.495000f) {
                      if (features[15] < 0.011030f) {
                          if (features[16] < 0.012640f) {
                              if (features[13] < 37.820000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[28] < 0.288950f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[2] < 90.110001f) {
                              return 1;
                          } else {
                              if (features[27] < 0.138100f) {
                                  return 1;
                              } else {
                                  if (features[10] < 0.313900f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[9] < inff) {
                      if (features[17] < 0.011095f) {
                          return 0;
                      } else {
                          if (features[22] < 141.000000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[21] < 26.740001f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[20] < 14.855000f) {
                  if (features[7] < 0.065090f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[26] < 0.228250f) {
                      return 1;
                  } else {
                      if (features[4] < 0.081580f) {
                          return 1;
                      } else {
                          if (features[21] < 18.400000f) {
                              if (features[4] < 0.105200f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[13] < 15.740000f) {
                                  return 1;
                              } else {
                                  if (features[24] < 0.106150f) {
                                      if (features[29] < 0.072725f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  } else {
                                      if (features[16] < 0.269900f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_32(const float *features, int32_t features_length) {
          if (features[0] < 15.030000f) {
              if (features[6] < 0.107250f) {
                  if (features[23] < 653.449982f) {
                      if (features[15] < 0.010200f) {
                          if (features[15] < 0.010040f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 1;
                      }
                  } else {
                      if (features[10] < 0.380200f) {
                          if (features[23] < 655.149994f) {
                              return 0;
                          } else {
                              if (features[9] < 0.063670f) {
                                  if (features[26] < 0.378750f) {
                                      if (features[21] < 29.680000f) {
                                          return 1;
                                      } else {
                                          return 18;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[4] < 0.096650f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      } else {
                          if (features[8] < 0.165900f) {
                              return 0;
                          } else {
                              if (features[22] < 129.099998f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              } else {
                  if (features[0] < 10.492000f) {
                      return 1;
                  } else {
                      if (features[7] < 0.063810f) {
                          return 1;
                      } else {
                          if (features[24] < 0.097445f) {
                              return 1;
                          } else {
                              if (features[23] < 656.300018f) {
                                  if (features[19] < 0.004519f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[23] < 960.500000f) {
                  if (features[18] < 0.024120f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_33(const float *features, int32_t features_length) {
          if (features[2] < 96.579998f) {
              if (features[25] < 0.325750f) {
                  if (features[22] < 112.599998f) {
                      if (features[20] < 15.780000f) {
                          if (features[23] < 785.750000f) {
                              if (features[26] < 0.215000f) {
                                  return 1;
                              } else {
                                  if (features[25] < 0.157150f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[7] < 0.033170f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[14] < 0.006957f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[27] < 0.139950f) {
                          if (features[26] < 0.158400f) {
                              return 0;
                          } else {
                              if (features[9] < 0.060210f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[8] < 0.165150f) {
                      return 1;
                  } else {
                      if (features[23] < 490.500000f) {
                          return 1;
                      } else {
                          if (features[6] < 0.088940f) {
                              if (features[26] < 0.356000f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          } else {
              if (features[23] < 825.000000f) {
                  return 1;
              } else {
                  if (features[26] < 0.236300f) {
                      if (features[1] < 19.860000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[2] < 102.850002f) {
                          if (features[24] < 0.116150f) {
                              return 1;
                          } else {
                              if (features[11] < 0.441350f) {
                                  if (features[10] < 0.217050f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_34(const float *features, int32_t features_length) {
          if (features[22] < 115.000000f) {
              if (features[23] < 869.250000f) {
                  if (features[25] < 0.390400f) {
                      if (features[26] < 0.320750f) {
                          if (features[10] < 0.625550f) {
                              if (features[12] < inff) {
                                  return 1;
                              } else {
                                  if (features[25] < 0.158450f) {
                                      if (features[17] < 0.007959f) {
                                          return 1;
                                      } else {
                                          return 6;
                                      }
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[3] < 541.050003f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[15] < 0.034095f) {
                              if (features[11] < 1.284000f) {
                                  if (features[26] < 0.325850f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[13] < 17.435000f) {
                          return 1;
                      } else {
                          if (features[27] < 0.133200f) {
                              return 1;
                          } else {
                              if (features[3] < 619.900024f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      }
                  }
              } else {
                  if (features[13] < 30.195000f) {
                      if (features[29] < 0.089795f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[26] < 0.179750f) {
                  if (features[5] < 0.062535f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[10] < 0.245850f) {
                      if (features[13] < inff) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_35(const float *features, int32_t features_length) {
          if (features[2] < 96.404999f) {
              if (features[22] < 114.399998f) {
                  if (features[23] < 750.049988f) {
                      if (features[25] < 0.487250f) {
                          if (features[23] < 591.450012f) {
                              return 1;
                          } else {
                              if (features[12] < 5.453000f) {
                                  if (features[25] < 0.387300f) {
                                      if (features[14] < 0.007495f) {
                                          return 1;
                                      } else {
                                          return 4;
                                      }
                                  } else {
                                      if (features[7] < 0.062585f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[2] < 94.060001f) {
                          if (features[26] < 0.194450f) {
                              return 1;
                          } else {
                              if (features[1] < 15.370000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[8] < 0.214800f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[27] < 0.150950f) {
                  if (features[21] < 19.285000f) {
                      return 1;
                  } else {
                      if (features[29] < 0.060315f) {
                          return 1;
                      } else {
                          if (features[29] < 0.102800f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  }
              } else {
                  if (features[26] < 0.196350f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_36(const float *features, int32_t features_length) {
          if (features[22] < 115.349998f) {
              if (features[27] < 0.160300f) {
                  if (features[28] < 0.367150f) {
                      if (features[20] < 15.640000f) {
                          if (features[18] < 0.009406f) {
                              return 0;
                          } else {
                              if (features[10] < 0.566700f) {
                                  if (features[21] < 32.705000f) {
                                      if (features[7] < 0.050210f) {
                                          return 1;
                                      } else {
                                          return 19;
                                      }
                                  } else {
                                      if (features[4] < 0.090425f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[4] < 0.090910f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      } else {
                          if (features[1] < 19.750000f) {
                              if (features[0] < 13.850000f) {
                                  if (features[15] < 0.019415f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[4] < 0.083120f) {
                                  if (features[24] < inff) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[10] < 0.271850f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[22] < 97.155003f) {
                      if (features[11] < 1.021500f) {
                          return 1;
                      } else {
                          if (features[3] < 306.050003f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[24] < 0.100360f) {
                  return 1;
              } else {
                  if (features[22] < 116.250000f) {
                      if (features[20] < 17.790000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_37(const float *features, int32_t features_length) {
          if (features[22] < 115.349998f) {
              if (features[7] < 0.049230f) {
                  if (features[20] < 16.800000f) {
                      if (features[28] < 0.163850f) {
                          return 0;
                      } else {
                          if (features[27] < 0.158400f) {
                              if (features[9] < 0.055905f) {
                                  if (features[16] < 0.033800f) {
                                      if (features[26] < 0.198050f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[10] < 0.625550f) {
                                      if (features[1] < 22.455000f) {
                                          return 1;
                                      } else {
                                          return 20;
                                      }
                                  } else {
                                      if (features[28] < inff) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          } else {
                              if (features[15] < 0.057370f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      }
                  } else {
                      if (features[1] < 17.000000f) {
                          if (features[8] < 0.171900f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[2] < 90.369999f) {
                      if (features[24] < 0.165650f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[6] < 0.077550f) {
                          return 1;
                      } else {
                          if (features[21] < 18.405000f) {
                              if (features[15] < 0.040695f) {
                                  if (features[23] < 840.350006f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[27] < 0.112300f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[11] < 1.972500f) {
                  return 0;
              } else {
                  if (features[2] < 109.299999f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_38(const float *features, int32_t features_length) {
          if (features[20] < 16.790000f) {
              if (features[6] < 0.104650f) {
                  if (features[7] < 0.051455f) {
                      if (features[28] < 0.156550f) {
                          return 0;
                      } else {
                          if (features[21] < 30.145000f) {
                              if (features[15] < 0.010110f) {
                                  if (features[13] < inff) {
                                      return 1;
                                  } else {
                                      if (features[15] < 0.009055f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[11] < 0.946250f) {
                                  return 0;
                              } else {
                                  if (features[12] < 2.899000f) {
                                      return 1;
                                  } else {
                                      if (features[23] < 610.599976f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          }
                      }
                  } else {
                      if (features[1] < 16.835000f) {
                          return 1;
                      } else {
                          if (features[22] < 101.855000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  if (features[7] < 0.049230f) {
                      return 1;
                  } else {
                      if (features[0] < 10.825000f) {
                          return 1;
                      } else {
                          if (features[20] < 16.434999f) {
                              if (features[28] < 0.264400f) {
                                  if (features[13] < 53.469999f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 1;
                          }
                      }
                  }
              }
          } else {
              if (features[5] < 0.085565f) {
                  if (features[1] < 16.755000f) {
                      if (features[25] < 0.188950f) {
                          return 1;
                      } else {
                          if (features[0] < 16.960000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[16] < 0.019160f) {
                      if (features[15] < 0.016000f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_39(const float *features, int32_t features_length) {
          if (features[27] < 0.141250f) {
              if (features[23] < 960.500000f) {
                  if (features[27] < 0.130000f) {
                      if (features[16] < 0.123250f) {
                          if (features[13] < 77.725000f) {
                              if (features[18] < 0.014725f) {
                                  if (features[12] < 2.714000f) {
                                      if (features[23] < 775.950012f) {
                                          return 1;
                                      } else {
                                          return 6;
                                      }
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 1;
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[2] < 90.090000f) {
                          if (features[22] < 103.600002f) {
                              return 1;
                          } else {
                              if (features[4] < 0.095820f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[9] < 0.059445f) {
                              if (features[22] < 121.500000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[3] < inff) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      }
                  }
              } else {
                  if (features[1] < 14.815000f) {
                      return 1;
                  } else {
                      if (features[7] < 0.028040f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[2] < 77.210003f) {
                  return 1;
              } else {
                  if (features[19] < 0.012910f) {
                      if (features[21] < 18.400000f) {
                          if (features[7] < 0.079390f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[22] < 97.490002f) {
                              return 1;
                          } else {
                              if (features[27] < 0.149950f) {
                                  if (features[16] < 0.020810f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      return 1;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_40(const float *features, int32_t features_length) {
          if (features[22] < 111.500000f) {
              if (features[23] < 902.300018f) {
                  if (features[26] < 0.369400f) {
                      if (features[18] < 0.009216f) {
                          return 0;
                      } else {
                          if (features[27] < 0.150500f) {
                              if (features[7] < 0.072605f) {
                                  if (features[27] < 0.137000f) {
                                      if (features[10] < 0.625550f) {
                                          return 5;
                                      } else {
                                          return 6;
                                      }
                                  } else {
                                      if (features[3] < 579.699982f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[7] < 0.049070f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[6] < 0.068005f) {
                  if (features[23] < 1125.000000f) {
                      if (features[2] < 97.715000f) {
                          return 0;
                      } else {
                          if (features[26] < 0.297000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[0] < 14.700000f) {
                      if (features[24] < 0.142100f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_41(const float *features, int32_t features_length) {
          if (features[22] < 112.599998f) {
              if (features[1] < 20.800000f) {
                  if (features[7] < 0.074095f) {
                      if (features[12] < 4.114500f) {
                          if (features[13] < 94.094997f) {
                              if (features[5] < 0.114000f) {
                                  return 1;
                              } else {
                                  if (features[24] < 0.142900f) {
                                      return 1;
                                  } else {
                                      if (features[20] < 11.720000f) {
                                          return 1;
                                      } else {
                                          return 21;
                                      }
                                  }
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[13] < 78.180000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      if (features[16] < 0.229945f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  }
              } else {
                  if (features[6] < 0.071370f) {
                      if (features[17] < 0.016050f) {
                          if (features[23] < 761.250000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[28] < 0.223350f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[13] < 28.015000f) {
                  if (features[29] < 0.075485f) {
                      if (features[9] < 0.061335f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[0] < 14.700000f) {
                      if (features[18] < 0.023255f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_42(const float *features, int32_t features_length) {
          if (features[7] < 0.059590f) {
              if (features[2] < 106.849998f) {
                  if (features[25] < 0.349800f) {
                      if (features[22] < 115.100002f) {
                          if (features[22] < 109.299999f) {
                              if (features[18] < 0.009251f) {
                                  return 0;
                              } else {
                                  if (features[27] < 0.110550f) {
                                      if (features[12] < 4.032000f) {
                                          return 1;
                                      } else {
                                          return 18;
                                      }
                                  } else {
                                      if (features[7] < 0.056360f) {
                                          return 22;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          } else {
                              if (features[21] < 23.455000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[18] < 0.016080f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[23] < 736.950012f) {
                          if (features[4] < 0.107700f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[29] < 0.062435f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[26] < 0.224000f) {
                  return 1;
              } else {
                  if (features[19] < 0.012910f) {
                      if (features[11] < 0.488850f) {
                          return 1;
                      } else {
                          if (features[22] < 97.155003f) {
                              return 1;
                          } else {
                              if (features[26] < 0.260500f) {
                                  if (features[13] < 58.420000f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      return 1;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_43(const float *features, int32_t features_length) {
          if (features[12] < 2.762000f) {
              if (features[6] < 0.093495f) {
                  if (features[13] < 42.825001f) {
                      if (features[23] < 960.500000f) {
                          if (features[7] < 0.080785f) {
                              if (features[28] < 0.368700f) {
                                  if (features[21] < 33.105000f) {
                                      return 1;
                                  } else {
                                      if (features[23] < 641.599976f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[14] < 0.006942f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[24] < 0.135800f) {
                      if (features[16] < 0.033680f) {
                          return 0;
                      } else {
                          if (features[9] < 0.057920f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[10] < 0.198100f) {
                          return 1;
                      } else {
                          if (features[1] < 16.220000f) {
                              return 1;
                          } else {
                              if (features[4] < 0.099665f) {
                                  if (features[10] < 0.314200f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              }
          } else {
              if (features[6] < 0.068965f) {
                  if (features[20] < 14.575000f) {
                      if (features[25] < 0.084760f) {
                          if (features[22] < 85.090000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 1;
                      }
                  } else {
                      if (features[1] < 26.175000f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  }
              } else {
                  if (features[3] < 482.750000f) {
                      return 1;
                  } else {
                      if (features[27] < 0.103400f) {
                          if (features[23] < 1018.850006f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[22] < 107.250000f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_44(const float *features, int32_t features_length) {
          if (features[3] < 692.850006f) {
              if (features[20] < 16.810000f) {
                  if (features[23] < 727.100006f) {
                      if (features[29] < 0.117700f) {
                          if (features[27] < 0.141550f) {
                              if (features[17] < 0.014150f) {
                                  return 1;
                              } else {
                                  if (features[26] < 0.073945f) {
                                      if (features[6] < 0.025875f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[4] < 0.114650f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          if (features[18] < 0.018690f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[27] < 0.110350f) {
                          if (features[24] < 0.129650f) {
                              return 1;
                          } else {
                              if (features[4] < 0.109750f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          if (features[7] < 0.044140f) {
                              if (features[24] < 0.111500f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          } else {
                              if (features[26] < 0.231150f) {
                                  return 1;
                              } else {
                                  if (features[17] < 0.022460f) {
                                      return 0;
                                  } else {
                                      if (features[27] < 0.178750f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          }
                      }
                  }
              } else {
                  if (features[11] < 0.590500f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[4] < 0.074710f) {
                  return 1;
              } else {
                  if (features[6] < 0.068005f) {
                      if (features[27] < 0.101625f) {
                          return 0;
                      } else {
                          if (features[26] < 0.287200f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      }
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_45(const float *features, int32_t features_length) {
          if (features[22] < 109.899998f) {
              if (features[25] < 0.387300f) {
                  if (features[13] < 78.180000f) {
                      if (features[23] < 884.250000f) {
                          if (features[24] < 0.187950f) {
                              if (features[11] < 1.624000f) {
                                  if (features[12] < 3.290500f) {
                                      return 1;
                                  } else {
                                      if (features[23] < 688.250000f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[20] < 15.780000f) {
                                      if (features[12] < 4.114500f) {
                                          return 1;
                                      } else {
                                          return 8;
                                      }
                                  } else {
                                      if (features[1] < 19.270000f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          } else {
                              if (features[4] < 0.124100f) {
                                  return 0;
                              } else {
                                  return 1;
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      return 0;
                  }
              } else {
                  if (features[13] < 17.435000f) {
                      if (features[20] < 15.880000f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[4] < 0.086190f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              }
          } else {
              if (features[10] < 0.353400f) {
                  if (features[20] < 16.890000f) {
                      return 1;
                  } else {
                      if (features[26] < 0.198450f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  return 0;
              }
          }
        }
        

static inline int32_t mytree_tree_46(const float *features, int32_t features_length) {
          if (features[23] < 874.850006f) {
              if (features[26] < 0.369400f) {
                  if (features[0] < 15.280000f) {
                      if (features[25] < 0.325750f) {
                          if (features[17] < 0.014175f) {
                              if (features[27] < inff) {
                                  return 1;
                              } else {
                                  if (features[1] < 22.455000f) {
                                      return 1;
                                  } else {
                                      if (features[1] < 23.480000f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          } else {
                              if (features[15] < 0.010920f) {
                                  return 0;
                              } else {
                                  if (features[27] < inff) {
                                      return 1;
                                  } else {
                                      if (features[24] < 0.132850f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              }
                          }
                      } else {
                          if (features[23] < 729.549988f) {
                              return 1;
                          } else {
                              if (features[24] < 0.136150f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  } else {
                      if (features[10] < 0.259800f) {
                          return 1;
                      } else {
                          return 0;
                      }
                  }
              } else {
                  if (features[21] < 25.525000f) {
                      return 1;
                  } else {
                      if (features[13] < inff) {
                          if (features[15] < 0.042415f) {
                              return 0;
                          } else {
                              if (features[25] < 0.507850f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      } else {
                          return 1;
                      }
                  }
              }
          } else {
              if (features[7] < 0.032420f) {
                  if (features[24] < 0.123100f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[15] < 0.008348f) {
                      return 1;
                  } else {
                      if (features[16] < 0.018930f) {
                          if (features[21] < 25.905001f) {
                              return 1;
                          } else {
                              return 0;
                          }
                      } else {
                          return 0;
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_47(const float *features, int32_t features_length) {
          if (features[22] < 106.099998f) {
              if (features[2] < 100.875000f) {
                  if (features[10] < 0.936300f) {
                      if (features[20] < 14.905000f) {
                          if (features[9] < inff) {
                              return 1;
                          } else {
                              if (features[26] < 0.375450f) {
                                  return 1;
                              } else {
                                  if (features[14] < 0.010247f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          }
                      } else {
                          if (features[24] < 0.137800f) {
                              if (features[25] < 0.355900f) {
                                  if (features[21] < 29.680000f) {
                                      return 1;
                                  } else {
                                      if (features[25] < 0.187700f) {
                                          return 1;
                                      } else {
                                          return 18;
                                      }
                                  }
                              } else {
                                  if (features[5] < inff) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              if (features[21] < 26.540000f) {
                                  if (features[5] < inff) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              } else {
                                  if (features[7] < 0.024415f) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      }
                  } else {
                      return 0;
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[24] < 0.106600f) {
                  if (features[26] < 0.255300f) {
                      return 1;
                  } else {
                      return 0;
                  }
              } else {
                  if (features[7] < 0.049520f) {
                      if (features[6] < 0.057115f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      if (features[10] < 0.191850f) {
                          return 1;
                      } else {
                          if (features[12] < 2.136500f) {
                              if (features[29] < 0.089065f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[23] < inff) {
                                  return 0;
                              } else {
                                  if (features[3] < inff) {
                                      return 0;
                                  } else {
                                      if (features[21] < 22.750000f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              }
                          }
                      }
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_48(const float *features, int32_t features_length) {
          if (features[23] < 869.299988f) {
              if (features[22] < 116.399998f) {
                  if (features[28] < 0.346250f) {
                      if (features[24] < 0.178250f) {
                          if (features[28] < 0.156550f) {
                              return 0;
                          } else {
                              if (features[22] < 102.400002f) {
                                  if (features[2] < 92.674999f) {
                                      if (features[11] < 2.097500f) {
                                          return 1;
                                      } else {
                                          return 23;
                                      }
                                  } else {
                                      if (features[27] < inff) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  }
                              } else {
                                  if (features[2] < 91.685001f) {
                                      if (features[3] < 555.450012f) {
                                          return 1;
                                      } else {
                                          return 0;
                                      }
                                  } else {
                                      if (features[16] < 0.041445f) {
                                          return 1;
                                      } else {
                                          return 15;
                                      }
                                  }
                              }
                          }
                      } else {
                          return 0;
                      }
                  } else {
                      if (features[26] < 0.345300f) {
                          return 1;
                      } else {
                          if (features[1] < 18.080000f) {
                              if (features[13] < 22.430000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              return 0;
                          }
                      }
                  }
              } else {
                  return 0;
              }
          } else {
              if (features[26] < 0.207300f) {
                  if (features[20] < inff) {
                      return 0;
                  } else {
                      return 1;
                  }
              } else {
                  if (features[7] < 0.032100f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          }
        }
        

static inline int32_t mytree_tree_49(const float *features, int32_t features_length) {
          if (features[7] < 0.055800f) {
              if (features[12] < 4.136500f) {
                  if (features[20] < 16.790000f) {
                      if (features[25] < 0.421350f) {
                          if (features[27] < 0.160300f) {
                              if (features[0] < 14.595000f) {
                                  if (features[11] < 1.376500f) {
                                      return 1;
                                  } else {
                                      if (features[11] < 1.383500f) {
                                          return 0;
                                      } else {
                                          return 1;
                                      }
                                  }
                              } else {
                                  if (features[0] < 14.620000f) {
                                      return 0;
                                  } else {
                                      return 1;
                                  }
                              }
                          } else {
                              return 0;
                          }
                      } else {
                          if (features[19] < 0.006613f) {
                              return 0;
                          } else {
                              return 1;
                          }
                      }
                  } else {
                      if (features[1] < 15.805000f) {
                          return 1;
                      } else {
                          if (features[11] < 0.483100f) {
                              if (features[6] < 0.065380f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          } else {
                              if (features[14] < inff) {
                                  return 0;
                              } else {
                                  if (features[18] < inff) {
                                      return 1;
                                  } else {
                                      return 0;
                                  }
                              }
                          }
                      }
                  }
              } else {
                  if (features[22] < 96.494999f) {
                      return 1;
                  } else {
                      return 0;
                  }
              }
          } else {
              if (features[27] < 0.108700f) {
                  return 1;
              } else {
                  if (features[1] < 15.900000f) {
                      if (features[21] < 17.960000f) {
                          return 0;
                      } else {
                          return 1;
                      }
                  } else {
                      if (features[24] < 0.098345f) {
                          return 1;
                      } else {
                          if (features[1] < inff) {
                              return 0;
                          } else {
                              if (features[21] < 18.660000f) {
                                  return 1;
                              } else {
                                  return 0;
                              }
                          }
                      }
                  }
              }
          }
        }
        

static const uint8_t mytree_leaves[48] = { 255, 0, 0, 255, 98, 156, 4, 250, 32, 222, 2, 252, 64, 190, 25, 229, 85, 169, 51, 203, 46, 208, 34, 220, 8, 246, 113, 141, 3, 251, 42, 212, 5, 249, 102, 152, 127, 127, 12, 242, 18, 236, 222, 32, 21, 233, 13, 241 };

int32_t mytree_predict(const float *features, int32_t features_length) {

        float out[2] = {0.0f,};

        int offset = 0;

        offset = 2*mytree_tree_0(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_1(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_2(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_3(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_4(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_5(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_6(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_7(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_8(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_9(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_10(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_11(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_12(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_13(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_14(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_15(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_16(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_17(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_18(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_19(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_20(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_21(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_22(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_23(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_24(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_25(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_26(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_27(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_28(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_29(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_30(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_31(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_32(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_33(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_34(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_35(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_36(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_37(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_38(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_39(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_40(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_41(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_42(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_43(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_44(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_45(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_46(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_47(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_48(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_49(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    
        // argmax over probabilities
        int32_t most_voted_class = -1;
        float most_voted_proba = 0.0f;
        for (int32_t i=0; i<2; i++) {

            if (out[i] > most_voted_proba) {
                most_voted_class = i;
                most_voted_proba = out[i];
            }
        }
        return most_voted_class;
    }
    

int mytree_predict_proba(const float *features, int32_t features_length, float *out, int out_length) {

        int offset = 0;

        for (int i=0; i<out_length; i++) {
            out[i] = 0.0f;
        }

        offset = 2*mytree_tree_0(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_1(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_2(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_3(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_4(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_5(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_6(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_7(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_8(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_9(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_10(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_11(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_12(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_13(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_14(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_15(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_16(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_17(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_18(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_19(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_20(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_21(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_22(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_23(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_24(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_25(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_26(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_27(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_28(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_29(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_30(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_31(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_32(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_33(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_34(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_35(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_36(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_37(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_38(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_39(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_40(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_41(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_42(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_43(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_44(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_45(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_46(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_47(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_48(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    offset = 2*mytree_tree_49(features, features_length);
            for (int i=0; i<2; i++) { out[i] += (mytree_leaves[offset+i]/255.0f); }
        
    
        // compute mean
        for (int i=0; i<out_length; i++) {
            out[i] = out[i] / 50;
        }
        return 0;
    }
    

            int32_t
            predict_wrapper(const float *values, int length) {
                // Convert to whatever is needed for inline
                float features[30];
                for (int i=0; i<length; i++) {
                    features[i] = (float)values[i];
                }
                const int32_t out = mytree_predict(features, length);
                if (out < 0) {
                    return -out;
                }
                return out;
            }

            int
            predict_proba_wrapper(const float *values, int length, float *outputs, int n_outputs) {
                // Convert to whatever is needed for inline
                float features[30];
                for (int i=0; i<length; i++) {
                    features[i] = (float)values[i];
                }

                const int err =                     mytree_predict_proba(features, length, outputs, n_outputs);

                return err;
            }
            