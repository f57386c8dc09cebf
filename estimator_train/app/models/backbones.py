"""The backbones for classifiers: every model of `tf_keras.applications`, listed without importing TensorFlow."""

import re

from estimator_train._engine.host.paths import StrPath

_CLASSES = """
    VGG16 VGG19 MobileNetV2 MobileNet MobileNetV3Small MobileNetV3Large NASNetMobile NASNetLarge Xception
    ResNet50 ResNet101 ResNet152 ResNet50V2 ResNet101V2 ResNet152V2
    ResNetRS50 ResNetRS101 ResNetRS152 ResNetRS200 ResNetRS270 ResNetRS350 ResNetRS420
    InceptionV3 InceptionResNetV2 DenseNet121 DenseNet169 DenseNet201
    EfficientNetB0 EfficientNetB1 EfficientNetB2 EfficientNetB3
    EfficientNetB4 EfficientNetB5 EfficientNetB6 EfficientNetB7
    EfficientNetV2B0 EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3
    EfficientNetV2S EfficientNetV2M EfficientNetV2L
    ConvNeXtTiny ConvNeXtSmall ConvNeXtBase ConvNeXtLarge ConvNeXtXLarge
    RegNetX002 RegNetX004 RegNetX006 RegNetX008 RegNetX016 RegNetX032
    RegNetX040 RegNetX064 RegNetX080 RegNetX120 RegNetX160 RegNetX320
    RegNetY002 RegNetY004 RegNetY006 RegNetY008 RegNetY016 RegNetY032
    RegNetY040 RegNetY064 RegNetY080 RegNetY120 RegNetY160 RegNetY320
"""


def _name_of(class_name):
    """Returns our spelling of a class name, such as efficientnet_v2_b0 for EfficientNetV2B0."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    return words.replace("_net", "net").replace("_ne_xt", "next")


CLASSES = {_name_of(class_name): class_name for class_name in _CLASSES.split()}  # keyed by our model names

_MOST_CHANNELS = 4032  # of NASNetLarge's last layer
_VGG16_STRIDES = {"block4_pool": 16, "all": 32}  # pixels between two outputs of the last frozen layer


def default_freeze(name: str, weights: StrPath | None) -> str:
    """Returns the layers of the backbone `name` to freeze by default.

    With random weights, all layers are trained. VGG16's last block is fine-tuned, as in Kashif Rasul, "Multi-GPU
    training with Estimators, tf.keras and tf.data" (TensorFlow blog). For other models, only the head is trained.

        >>> default_freeze("vgg16", "imagenet")
        'block4_pool'
    """
    if weights == "none":
        return "none"
    if name == "vgg16":
        return "block4_pool"
    return "all"


def most_features(name: str, freeze: str, image_size: tuple[int, int]) -> int | None:
    """Returns at most how many numbers the frozen layers of a classifier on the backbone `name` give for an image.

    None if it has no frozen layers, or if these end where the number is unknown before the model is built.

        >>> most_features("vgg16", "block4_pool", (224, 224)), most_features("vgg16", "100", (224, 224))
        (100352, None)
    """
    if name == "vgg16" and freeze in _VGG16_STRIDES:  # its head flattens them
        height, width = (side // _VGG16_STRIDES[freeze] for side in image_size)
        return height * width * 512
    if name in CLASSES and freeze == "all":  # averaged over the image
        return _MOST_CHANNELS
    return None


def check_freeze(name: str, weights: StrPath | None, freeze: str | int | None) -> None:
    """Raises ValueError if the model `name` has no backbone to freeze, or its backbone has random weights.

    >>> check_freeze("mobilenet_v2", "imagenet", "all")
    """
    if freeze is None:
        return
    if name not in CLASSES:
        raise ValueError(f"{name} has no backbone of keras.applications to freeze; leave out freeze={freeze}")
    if weights == "none" and str(freeze) != "none":
        raise ValueError(
            f'freeze={freeze} would keep the random weights that weights="none" gives {name}; start from imagenet or a '
            "file, or freeze none"
        )
